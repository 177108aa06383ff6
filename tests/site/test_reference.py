"""The reference has every public name, every function of the headers and every option, each with a text."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import frugal_alloc
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "site"))
from built_site import Site  # noqa: E402

sys.path[:0] = [str(ROOT / "tools" / "site"), str(ROOT / "tools")]
from site_parts import command_line, headers, reference, settings  # noqa: E402

FUNCTION = re.compile(r"^(?!  |typedef|#)[\w ]+[\w*] \*?(frugal_\w+)\(", re.MULTILINE)


def test_every_public_name_of_the_package_is_described(site: Site) -> None:
    assert set(reference.public_names()) == set(frugal_alloc.__all__)
    page = site.pages["reference/python.html"]
    assert {f"frugal_alloc.{name}" for name in frugal_alloc.__all__} <= page.ids
    text = (site.folder / "reference" / "python.html").read_text(encoding="utf-8")
    for name in frugal_alloc.__all__:
        described = text.split(f'id="frugal_alloc.{name}"', 1)[1].split('<div class="doc doc-object', 1)[0]
        assert re.search(r"<p>\w", described), name


@pytest.mark.parametrize("name", reference.integrations())
def test_integration_is_described(site: Site, name: str) -> None:
    assert f"{name}.html" not in site.pages
    assert name in site.pages["reference/integrations.html"].ids


@pytest.mark.parametrize("header, page", [(headers.CPP, "reference/cpp.html"), (headers.C, "reference/c.html")])
def test_every_declaration_of_a_header_is_described(site: Site, header: Path, page: str) -> None:
    entries = [entry for section in headers.sections(header) for entry in section.entries]
    assert {name for entry in entries for name in entry.names} <= site.pages[page].ids
    # A structure may be described by its members.
    assert [entry.names for entry in entries if not entry.text and "{" not in entry.declarations[0]] == []


def test_headers_are_read_whole() -> None:
    c_names = {name for section in headers.sections(headers.C) for entry in section.entries for name in entry.names}
    assert set(FUNCTION.findall(headers.C.read_text(encoding="utf-8"))) <= c_names
    cpp_names = {name for section in headers.sections(headers.CPP) for entry in section.entries for name in entry.names}
    public = headers.CPP.read_text(encoding="utf-8").split("}  // namespace internal", 1)[1]
    assert set(re.findall(r"^inline [\w:]+ (\w+)\(", public, re.MULTILINE)) <= cpp_names
    assert {"install", "Options", "Stats", "Report", "Finding", "Phase"} <= cpp_names


@pytest.mark.parametrize("name", [name for name in command_line.parsers() if name])
def test_subcommand_is_described_with_each_of_its_options(site: Site, name: str) -> None:
    page = site.pages["reference/command_line.html"]
    parser = command_line.parsers()[name]
    assert name in page.ids and parser.description
    text = " ".join(page.text.split())
    for action in parser._actions:
        if action.option_strings and "--help" not in action.option_strings:
            assert action.help and action.option_strings[-1] in text


def test_every_setting_is_described() -> None:
    assert len(settings.keys()) >= 10
    assert set(settings.keys()) == set(settings.meanings())

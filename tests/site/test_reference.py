"""The reference has every public name with a text, the headers, and the help of every command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import frugal_alloc
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "site"))
from built_site import Site  # noqa: E402

sys.path.insert(0, str(ROOT / "tools" / "site"))
import reference  # noqa: E402

INTEGRATIONS = sorted(path.stem for path in (reference.PACKAGE / "integrations").glob("[a-z]*.py"))


def test_every_public_name_of_the_package_is_described(site: Site) -> None:
    page = site.pages["reference/python.html"]
    sleep = site.pages["reference/python_sleep.html"]
    assert {f"frugal_alloc.{name}" for name in frugal_alloc.__all__} <= page.ids | sleep.ids
    assert page.text.rindex("cmake_prefix_path") > page.text.rindex("LeakError")
    text, asleep = (
        (site.folder / "reference" / name).read_text(encoding="utf-8") for name in ("python.html", "python_sleep.html")
    )
    assert re.findall(r'id="frugal_alloc\.(\w+)"', text)[0] == "enable"
    for name in frugal_alloc.__all__:
        described = (text + asleep).split(f'id="frugal_alloc.{name}"', 1)[1].split('<div class="doc doc-object', 1)[0]
        assert re.search(r"<p>\w", described), name


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_integration_is_described(site: Site, name: str) -> None:
    assert f"{name}.html" not in site.pages
    assert name in site.pages["reference/integrations.html"].ids


@pytest.mark.parametrize("headers, page", [(reference.CPP, "cpp"), ((reference.C,), "c")])
def test_headers_are_shown_whole(site: Site, headers: tuple[Path, ...], page: str) -> None:
    _, *shown = re.split(r"(?:\w+\.h\W+)?This is \S+\.h\.\n", site.pages[f"reference/{page}.html"].text)
    assert [text.split() for text in shown] == [header.read_text(encoding="utf-8").split() for header in headers]


def test_headers_of_cpp_programs_are_all_shown() -> None:
    assert set(reference.CPP) == set(reference.INCLUDE.glob("*.h"))


def test_command_line_is_shown_as_each_command_says_it(site: Site) -> None:
    page = site.pages["reference/command_line.html"]
    assert len(reference.commands()) > 10 and set(reference.commands()) <= page.ids
    text = " ".join(page.text.split())
    for name in ("fit", "install-hook"):
        command = [sys.executable, "-m", "frugal_alloc", name, "--help"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert set(re.findall(r"--[a-z-]+", told)) <= set(re.findall(r"--[a-z-]+", text))

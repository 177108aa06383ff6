"""tools/torch_versions.txt, and the places that have to agree with it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def listed() -> list[str]:
    lines = (ROOT / "tools" / "torch_versions.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def required(name: str) -> str:
    match = re.search(r"^torch==(\S+)$", (ROOT / "tools" / name).read_text(), re.MULTILINE)
    assert match
    return match[1]


def test_there_is_one_version_of_each_minor_without_a_gap() -> None:
    minors = [tuple(map(int, version.split(".")[:2])) for version in listed()]
    assert minors == [(2, minor) for minor in range(9, 9 + len(minors))]


def test_environments_have_listed_versions() -> None:
    assert required("requirements.txt") in listed()
    assert required("requirements-newest.txt") == listed()[-1]


def test_documentation_has_a_line_for_each() -> None:
    text = (ROOT / "docs" / "compatibility.md").read_text()
    assert re.findall(r"^\| (\d+\.\d+\.\d+) \|", text, re.MULTILINE) == listed()

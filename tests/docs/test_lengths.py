"""The documents stay short, in words as `wc -w` counts them; and architecture.md says how many lines each part has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_IN_ALL = 33_000
MOST = {
    "README.md": 850,
    "docs/install.md": 900,
    "docs/clusters.md": 500,
    "docs/compatibility.md": 1_500,
    "docs/tuning.md": 1_100,
    "docs/cpp.md": 800,
    "docs/reference/README.md": 100,
    "docs/sleep.md": 650,
}
COUNTED = {".h", ".cc", ".inc", ".py", ".js", ".css", ".jinja", ".bzl"}
# The table of lines is rounded to hundreds; beyond this share it says something else than what is there.
MOST_OFF = 0.05
ROW = re.compile(r"^\|.*\| ((?:`[^`]+`(?:, )?)+) \| ([\d,]+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "architecture.md").read_text())


def words(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", MOST)
def test_a_page_has_no_more_words_than_a_reader_has_patience_for(name: str) -> None:
    assert words(ROOT / name) <= MOST[name]


def test_all_documents_together_have_no_more_words_than_that() -> None:
    assert sum(map(words, [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])) <= MOST_IN_ALL


def files(place: str) -> list[Path]:
    """Of a folder with all below it, or of a pattern."""
    found = ROOT.glob(place) if "*" in place else (ROOT / place).rglob("*")
    return [path for path in found if path.suffix in COUNTED and path.is_file()]


def test_table_of_lines_is_there() -> None:
    assert len(ROWS) == 12


@pytest.mark.parametrize(("places", "lines"), ROWS)
def test_part_has_as_many_lines_as_the_architecture_says(places: str, lines: str) -> None:
    there = {path for place in re.findall("`([^`]+)`", places) for path in files(place)}
    counted = sum(len(path.read_text().splitlines()) for path in there if "frugal_alloc/_lib" not in str(path))
    assert abs(counted - int(lines.replace(",", ""))) <= MOST_OFF * counted, counted

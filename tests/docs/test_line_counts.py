"""docs/architecture.md says how many lines each part has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COUNTED = {".h", ".cc", ".inc", ".py", ".js", ".css", ".jinja", ".bzl"}
# The table is rounded to hundreds; beyond this share it says something else than what is there.
MOST_OFF = 0.05
ROWS = re.findall(
    r"^\|.*\| ((?:`[^`]+`(?:, )?)+) \| ([\d,]+) \|$",
    (ROOT / "docs" / "architecture.md").read_text(),
    re.MULTILINE,
)


def files(place: str) -> list[Path]:
    """Of a folder with all below it, or of a pattern."""
    found = ROOT.glob(place) if "*" in place else (ROOT / place).rglob("*")
    return [path for path in found if path.suffix in COUNTED and path.is_file()]


def test_table_is_there() -> None:
    assert len(ROWS) == 12


@pytest.mark.parametrize(("places", "lines"), ROWS)
def test_part_has_as_many_lines_as_the_architecture_says(places: str, lines: str) -> None:
    there = {path for place in re.findall("`([^`]+)`", places) for path in files(place)}
    counted = sum(len(path.read_text().splitlines()) for path in there if "frugal_alloc/_lib" not in str(path))
    assert abs(counted - int(lines.replace(",", ""))) <= MOST_OFF * counted, counted

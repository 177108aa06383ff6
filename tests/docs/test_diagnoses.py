"""The guide's table of diagnoses is the one that errors and reports read."""

from __future__ import annotations

import re
from pathlib import Path

from frugal_alloc._report.diagnoses import DIAGNOSES

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "out_of_memory.md"


def test_guide_lists_every_diagnosis_with_its_words() -> None:
    table = re.search(r"\| the sentence begins with .*?\n\n", GUIDE.read_text(), re.DOTALL)
    rows = [f"| {one.begins} | {one.means} | {one.helps} |" for one in DIAGNOSES.values()]
    assert table is not None
    assert sorted(table[0].strip().splitlines()[2:]) == sorted(rows)

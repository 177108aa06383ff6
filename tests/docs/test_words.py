"""The documents stay short: so many words, as `wc -w` counts them, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_IN_ALL = 33_000
MOST = {
    "README.md": 900,
    "docs/install.md": 900,
    "docs/clusters.md": 500,
    "docs/compatibility.md": 1_500,
    "docs/tuning.md": 1_100,
    "docs/cpp.md": 800,
    "docs/reference/README.md": 100,
    "docs/sleep.md": 650,
}


def words(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", MOST)
def test_a_page_has_no_more_words_than_a_reader_has_patience_for(name: str) -> None:
    assert words(ROOT / name) <= MOST[name]


def test_all_documents_together_have_no_more_words_than_that() -> None:
    assert sum(map(words, [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])) <= MOST_IN_ALL

"""Guides quote what the recorded example reports say, and what an error says is explained in one of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS / "reports" / "examples"
GUIDES = ("out_of_memory", "leaks", "fit", "check", "monitoring", "notebooks_and_trainers")


def text_of(guide: str) -> str:
    return (DOCS / f"{guide}.md").read_text(encoding="utf-8")


def is_shortened(block: str, whole: str) -> bool:
    """Whether a block has lines of the whole in their order, where `...` stands for those left out."""
    return re.search(".*\n".join(map(re.escape, block.split("...\n"))), whole, re.DOTALL) is not None


def quoted_first(guide: str) -> str:
    return re.findall(r"^```text\n(.*?)^```$", text_of(guide), re.MULTILINE | re.DOTALL)[0]


def test_error_that_is_explained_is_that_of_the_example() -> None:
    document = json.loads((EXAMPLES / "out_of_memory.json").read_text(encoding="utf-8"))
    assert is_shortened(quoted_first("out_of_memory"), f"{document['oom']['message']}\n")


@pytest.mark.parametrize(("guide", "example"), [("leaks", "leak"), ("fit", "fit")])
def test_report_that_is_explained_is_the_example(guide: str, example: str) -> None:
    command = [sys.executable, "-m", "frugal_alloc", "report", str(EXAMPLES / f"{example}.json")]
    printed = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=True).stdout
    assert is_shortened(quoted_first(guide), printed)


@pytest.mark.parametrize(
    "words", ["Change first", "Tried", "Too big", "maybe a larger one", "must go", "foreach=False"]
)
def test_what_an_error_says_is_explained_in_one_guide(words: str) -> None:
    assert [guide for guide in GUIDES if words in text_of(guide)] == ["out_of_memory"]

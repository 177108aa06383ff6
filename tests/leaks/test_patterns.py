"""The table of patterns: the documents have each, and the corpus a leak of each and a program that looks like it."""

from __future__ import annotations

import re
from pathlib import Path

import claims
from frugal_alloc._tracking import patterns

DOCUMENT = Path(__file__).parents[2] / "docs/leaks.md"
ACCUSING = {rule.name for rule in patterns.RULES if not rule.is_benign}


def test_document_lists_each_pattern_of_a_leak_once() -> None:
    table = DOCUMENT.read_text().partition("| pattern |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(ACCUSING)


def test_each_pattern_has_a_leak_and_a_program_that_looks_like_it() -> None:
    corpus = [claims.read(name) for name in claims.all_names()]
    assert {claim.verdict.partition(", ")[2] for claim in corpus if claim.verdict} == ACCUSING
    assert {pattern for claim in corpus for pattern in claim.likes} == ACCUSING - {"unknown"}

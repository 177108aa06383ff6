"""The table of patterns: the documents have each, and the corpus a leak of each and a program that looks like it."""

from __future__ import annotations

import re
from pathlib import Path

import claims
from frugal_alloc._tracking import patterns

DOCUMENT = Path(__file__).parents[2] / "docs/leaks.md"
ACCUSING = {rule.pattern for rule in patterns.RULES if not rule.is_benign}


def test_document_lists_each_pattern_of_a_leak_once() -> None:
    table = DOCUMENT.read_text().partition("| pattern |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(ACCUSING)


def test_each_pattern_has_a_leak_and_a_program_that_looks_like_it_among_some() -> None:
    some = [claims.read(name) for name in claims.some_names()]
    assert {claim.verdict.partition(", ")[2] for claim in some if claim.verdict} == ACCUSING
    assert {claim.like for claim in some if claim.like} == ACCUSING - {"unknown"}


def test_each_remedy_of_the_corpus_is_that_of_one_of_some() -> None:
    every = [claims.read(name) for name in claims.all_names()]
    names = claims.some_names()
    some = [claim for claim in every if claim.name in names]
    assert {claim for claim in every if claim.held or claim.verdict or claim.like or claim.epochs} <= set(some)
    assert {word for claim in every for word in claim.remedies} == {word for claim in some for word in claim.remedies}

"""The table of patterns: the documents have each, and the corpus a leak of each and a program that looks like it."""

from __future__ import annotations

import re
from pathlib import Path

import claims
import pytest
from frugal_alloc._heap.names import Name
from frugal_alloc._native.epochs import Finding
from frugal_alloc._native.sites import Site
from frugal_alloc._tracking import patterns
from frugal_alloc._tracking.accusations import Accusation
from frugal_alloc._tracking.bounds import Bound
from frugal_alloc._tracking.holders import Evidence, Holder

DOCUMENT = Path(__file__).parents[2] / "docs/leaks.md"
ACCUSING = {rule.name for rule in patterns.RULES if not rule.is_benign}


def test_document_lists_each_pattern_of_a_leak_once() -> None:
    table = DOCUMENT.read_text().partition("| pattern |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(ACCUSING)


def test_each_pattern_has_a_leak_and_a_program_that_looks_like_it() -> None:
    corpus = [claims.read(name) for name in claims.all_names()]
    assert {claim.verdict.partition(", ")[2] for claim in corpus if claim.verdict} == ACCUSING
    assert {pattern for claim in corpus for pattern in claim.likes} == ACCUSING - {"unknown"}


@pytest.mark.parametrize(
    "room, pattern, is_benign, told",
    [
        (600, "bounded_cache", True, "it has 4 of at most 10 (maxlen), and the rest would take 600 bytes"),
        (599, "unbounded_cache", False, "the rest would take 600 bytes, more than is left: lower that"),
        # Of a GPU of unknown size nobody knows whether it fits.
        (None, "outputs_kept", False, "keeps every one of them"),
    ],
)
def test_what_fills_up_to_a_bound_is_judged_by_the_room_that_is_left(
    room: int | None, pattern: str, is_benign: bool, told: str
) -> None:
    finding = Finding("leak", 0, 1, 400, 4, 4, 100.0, 0.99, 100)
    name = Name("variable", "deque 'latest'", "latest", "deque", "train.py", 1, collection="deque")
    held_by = Holder(name, 4, 400, 1.0, False, False, Bound("maxlen", 4, 4, 10))
    evidence = Evidence([held_by], False, False, [], 400, 1.0)
    accusation = Accusation(finding, Site(1, "", (), "", 0), None, None, None)
    found = patterns.recognise(patterns.Leak(accusation, (), evidence, False, room))
    assert (found.name, found.is_benign) == (pattern, is_benign)
    assert told in found.advice

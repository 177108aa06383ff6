"""Remembers who held a leak when it was first seen, since the holders may be gone by the time of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import accusations, expectations, holders
from .accusations import Accusation, Line
from .holders import Evidence

if TYPE_CHECKING:
    from .._native import Library
    from .cycles import Cycles
    from .epochs import Epochs
    from .suppressions import Suppression

# Each takes tenths of a second, so there are few in a run.
MOST_SEARCHES = 4
MOST_LINES = 50


class Witnesses:
    """Evidence by line. Holds names and figures only."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._seen: dict[Line, Evidence] = {}
        self._searches = 0
        self._looks = 0
        self._looks_at_search = 0

    def look(self, cycles: Cycles, epochs: Epochs, suppressions: list[Suppression]) -> None:
        """Called when an epoch of the library's has ended: looks for the holders of leaks that are new, and when there
        were twice as many ends, for those that are known, since a buffer that was filled had most at first."""
        self._looks += 1
        if self._searches >= MOST_SEARCHES:
            return
        if not epochs.growing() and all(found.kind == "suspect" for found in self._library.findings()):
            return
        accused = [
            one
            for one in accusations.find(self._library, cycles, epochs)[:MOST_LINES]
            if one.kind in ("leak", "growing") and not expectations.is_silenced(one.kind, one.code_line, suppressions)
        ]
        is_old = self._looks >= 2 * self._looks_at_search and self._searches < MOST_SEARCHES - 1
        if any(one.line not in self._seen or is_old for one in accused):
            self._searches += 1
            self._looks_at_search = self._looks
            self.of(accused)

    def remembered(self, accused: list[Accusation]) -> list[Evidence]:
        """Who was seen holding each of the accused."""
        return [self._seen.get(one.line, holders.NOTHING) for one in accused]

    def of(self, accused: list[Accusation]) -> list[Evidence]:
        """Who holds each of the accused now, or where that is not known any more, who held it before."""
        searched = accused[:MOST_LINES]
        found = holders.find([one.extents for one in searched])
        found += [holders.NOTHING] * (len(accused) - len(found))
        evidence = []
        for one, now in zip(accused, found, strict=True):
            before = self._seen.get(one.line)
            if before is None or _says_more(now, before):
                self._seen[one.line] = before = now
            evidence.append(before)
        return evidence


def _says_more(now: Evidence, before: Evidence) -> bool:
    """Whether what is seen now takes the place of what was seen before."""
    # The program's names have ended, and what they held is not collected yet.
    if now.is_nameless and before.is_explained and not before.is_nameless:
        return False
    return now.share >= before.share or now.is_explained or _is_refuted(before, now)


def _is_refuted(before: Evidence, now: Evidence) -> bool:
    """Whether who seemed to hold most among few tensors has hardly more now that there are many, as a bounded deque."""
    passed_over = {name.what for name in now.passed_over}
    return any(holder.name.what in passed_over for holder in before.holders)

"""What the lines of the program held at the ends of its epochs, and which held more each time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .._common.trend import Held, are_as_many, are_larger, median_slope, rank_confidence

if TYPE_CHECKING:
    from .._native import Library

# So many ends in a row must show more than the one before; of values in any order, one in 40,000 does.
RISING_ENDS = 8
# How far back an epoch is compared: an evaluation may be in every second one only.
COMPARED_ENDS = 2
# Of what a site grows by, what all of them together do at least: else one takes over what others let go.
LEAST_PART = 1 / 3


class Growing(NamedTuple):
    """A site whose blocks are as many as ever, and larger with each epoch of the program."""

    gpu: int
    site: int
    held: Held
    bytes_per_epoch: float
    confidence: float


class EpochMemory:
    """What each site held at the latest ends of the program's epochs."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._ends: list[dict[tuple[int, int], Held]] = []

    def note(self) -> None:
        """An epoch of the program ends here."""
        self._ends.append(
            {
                (usage.gpu, usage.site): Held(usage.live_bytes, usage.blocks)
                for usage in self._library.site_usages()
                if usage.live_bytes
            }
        )
        del self._ends[:-RISING_ENDS]

    def clear(self) -> None:
        self._ends.clear()

    def has_grown(self, gpu: int, sites: Iterable[int]) -> bool:
        """Whether the sites together hold more than some epochs ago; True where that is not known."""
        if len(self._ends) <= COMPARED_ENDS:
            return True
        sites = tuple(sites)
        before, now = (
            sum(end[gpu, site].bytes for site in sites if (gpu, site) in end)
            for end in (self._ends[-1 - COMPARED_ENDS], self._ends[-1])
        )
        return now > before

    def growing(self) -> list[Growing]:
        """The sites that held more at each of the latest ends, in as many blocks, give or take one of ten: most of the
        growth is in the size of the mean block."""
        if len(self._ends) < RISING_ENDS:
            return []
        found = []
        for gpu, site in self._ends[-1]:
            history = [end.get((gpu, site), Held(0, 0)) for end in self._ends]
            pairs = itertools.pairwise(history)
            if all(later.bytes > earlier.bytes and are_as_many(earlier, later) for earlier, later in pairs):
                if not are_larger(history[0], history[-1]):
                    continue
                totals = [sum(held.bytes for (number, _), held in end.items() if number == gpu) for end in self._ends]
                if totals[-1] - totals[0] < LEAST_PART * (history[-1].bytes - history[0].bytes):
                    continue
                sizes = [held.bytes for held in history]
                found.append(Growing(gpu, site, history[-1], median_slope(sizes), rank_confidence(sizes)))
        return found

"""Places the blocks of a history with full knowledge of it, to say how little memory is enough.

The rules are those of bench/offline_bound.py. Since a page without a live block can be mapped anywhere, memory held at
a time is the number of pages of the address space in which a live block has a byte, and all that there is to choose is
addresses. The best choice is hard to find (it is dynamic storage allocation), so this is a heuristic. What it takes is
counted by held_pages(), which knows nothing of how addresses were chosen.

Blocks are placed in the order of their birth, each where it adds least to the time for which pages are held; time near
the peak of live memory counts most. Against a place of its own, a place at the end of another block wins ties: it
leaves one large remainder instead of two small ones. Short-lived blocks between long-lived ones would part what belongs
together, so there is a second try in which the long-lived are placed first, and others around them.
"""

from __future__ import annotations

import bisect

import numpy as np
from frugal_alloc._replay.history import History
from numpy.typing import NDArray

from .free_ranges import FreeRanges
from .lifetimes import GRAINS_A_PAGE, PAGE_BYTES, Lifetimes, Numbers, lifetimes

# Far more than is ever live, so that every block placed apart has free addresses around it.
_ADDRESS_PAGES = 1 << 22
# Each try is a list of passes: the shortest life, in events, of what is placed in it.
_TRIES = ((0,), (1_000, 100, 0))
_NEAR_PEAK = 0.9
_WEIGHT_ELSEWHERE = 0.05
# How much each matters beside pages held: pages that others hold for longer; grains left over in pages at the ends.
_MISFIT, _REMAINDER = 0.05, 0.0002
# So many pages more, for as long as the block lives, are taken rather than a place of its own.
_BESIDE_OTHERS = 0.4


def offline_placement_bytes(history: History, *, waits: bool = True) -> int:
    """So much is enough; an upper bound of the least possible, as lower_bound_bytes() is a lower one."""
    blocks = lifetimes(history, waits=waits)
    return min(int(held_pages(blocks, place(blocks, cuts)).max(initial=0)) for cuts in _TRIES) * PAGE_BYTES


def place(blocks: Lifetimes, cuts: tuple[int, ...]) -> Numbers:
    """The first grain of each block. Deterministic."""
    weight = _weight(blocks)
    address = np.full(len(blocks.birth), -1, np.int64)
    for shortest in cuts:
        _Pass(blocks, weight, address).run(blocks.death - blocks.birth >= shortest)
    return address


def held_pages(blocks: Lifetimes, address: Numbers) -> Numbers:
    """After each event.

    Raises:
        ValueError: two blocks overlap, or one is nowhere.
    """
    _check_apart(blocks, address)
    first, last = address // GRAINS_A_PAGE, (address + blocks.grains - 1) // GRAINS_A_PAGE
    change = np.zeros(blocks.event_count + 1, np.int64)
    # Pages between the first and the last are the block's alone.
    inner = np.maximum(last - first - 1, 0)
    np.add.at(change, blocks.birth, inner)
    np.add.at(change, blocks.death, -inner)
    several = last > first
    page = np.concatenate([first, last[several]])
    begin = np.concatenate([blocks.birth, blocks.birth[several]])
    end = np.concatenate([blocks.death, blocks.death[several]])
    order = np.lexsort((begin, page))
    held_page, held_until = -1, -1
    for one, since, until in zip(page[order].tolist(), begin[order].tolist(), end[order].tolist(), strict=True):
        if one != held_page or since > held_until:
            change[since] += 1
            change[until] -= 1
            held_page, held_until = one, until
        elif until > held_until:
            change[held_until] += 1
            change[until] -= 1
            held_until = until
    return np.cumsum(change)[: blocks.event_count]


def _check_apart(blocks: Lifetimes, address: Numbers) -> None:
    if (address < 0).any():
        raise ValueError("a block is nowhere")
    changes = [(birth, 1, number) for number, birth in enumerate(blocks.birth.tolist())]
    changes += [(death, 0, number) for number, death in enumerate(blocks.death.tolist())]
    begins = address.tolist()
    ends = (address + blocks.grains).tolist()
    # Of the live blocks, in the order of addresses.
    live: list[tuple[int, int]] = []
    for _, born, number in sorted(changes):
        begin, end = begins[number], ends[number]
        index = bisect.bisect_left(live, (begin, end))
        if not born:
            del live[index]
            continue
        if (index > 0 and live[index - 1][1] > begin) or (index < len(live) and live[index][0] < end):
            raise ValueError(f"block {number} overlaps another one")
        live.insert(index, (begin, end))


def _weight(blocks: Lifetimes) -> NDArray[np.float64]:
    """Of the time from the beginning up to each event; one more than there are events."""
    live = blocks.live_grains()
    part = live / max(int(live.max(initial=0)), 1)
    return np.concatenate([[0.0], np.cumsum(np.where(part >= _NEAR_PEAK, 1.0, _WEIGHT_ELSEWHERE * part))])


class _Later:
    """Blocks that were placed by an earlier pass and are born while the block that is to be placed lives."""

    def __init__(self, begins: Numbers, ends: Numbers, births: Numbers) -> None:
        self.begins, self.ends, self.births = begins, ends, births
        order = np.argsort(begins)
        self._sorted_begins = begins[order]
        # They may overlap each other, when one dies before another is born.
        self._ends_so_far = np.maximum.accumulate(ends[order])

    def apart(self, starts: Numbers, size: int) -> NDArray[np.bool_]:
        """Which of the places none of them will need."""
        before = np.searchsorted(self._sorted_begins, starts + size, "left") - 1
        return (before < 0) | (self._ends_so_far[before] <= starts)

    def largest_hole(self, begin: int, end: int) -> tuple[int, int]:
        """Within a range that is free now."""
        inside = (self._sorted_begins < end) & (self._ends_so_far > begin)
        from_ = np.concatenate([[begin], self._ends_so_far[inside]])
        to = np.concatenate([self._sorted_begins[inside], [end]])
        widest = int(np.argmax(to - from_))
        return int(from_[widest]), int(to[widest])


class _Pass:
    """Goes through the history once, and places blocks around those that have an address."""

    def __init__(self, blocks: Lifetimes, weight: NDArray[np.float64], address: Numbers) -> None:
        self._blocks = blocks
        self._weight = weight
        self._address = address
        self._ranges = FreeRanges(_ADDRESS_PAGES * GRAINS_A_PAGE)
        # By page: until when blocks that were born so far hold it; when one that is born later will.
        self._held_until = np.zeros(_ADDRESS_PAGES, np.int64)
        self._held_from = np.full(_ADDRESS_PAGES, blocks.event_count, np.int64)
        known = np.flatnonzero(address >= 0)
        known = known[np.argsort(blocks.birth[known])]
        self._known_births = blocks.birth[known]
        self._known_begins = address[known]
        self._known_ends = address[known] + blocks.grains[known]
        # How many of these were born.
        self._seen = 0

    def run(self, chosen: NDArray[np.bool_]) -> None:
        """Gives an address to those of the chosen that have none."""
        taking_part = np.flatnonzero(chosen | (self._address >= 0))
        changes = [(int(self._blocks.birth[number]), 1, int(number)) for number in taking_part]
        changes += [(int(self._blocks.death[number]), 0, int(number)) for number in taking_part]
        for time, born, number in sorted(changes):
            size = int(self._blocks.grains[number])
            if not born:
                begin = int(self._address[number])
                self._ranges.give(begin, begin + size)
                continue
            death = int(self._blocks.death[number])
            if self._address[number] < 0:
                self._address[number] = self._choose(time, death, size)
            else:
                self._seen += 1
            begin = int(self._address[number])
            self._ranges.take(begin, begin + size)
            pages = slice(begin // GRAINS_A_PAGE, (begin + size - 1) // GRAINS_A_PAGE + 1)
            np.maximum(self._held_until[pages], death, out=self._held_until[pages])

    def _choose(self, birth: int, death: int, size: int) -> int:
        begins, ends = self._ranges.begins, self._ranges.ends
        fits = ends - begins >= size
        starts = np.concatenate([begins[fits], ends[fits] - size])
        until = int(np.searchsorted(self._known_births, death))
        later = None
        if until > self._seen:
            part = slice(self._seen, until)
            later = _Later(self._known_begins[part], self._known_ends[part], self._known_births[part])
            starts = self._free_now(np.concatenate([starts, later.ends, later.begins - size]), size)
            starts = starts[later.apart(starts, size)]
        lifetime = self._weight[death] - self._weight[birth]
        if len(starts) > 0:
            prices = self._prices(starts, birth, death, size, later)
            best = int(np.argmin(prices))
            if prices[best] <= (-(-size // GRAINS_A_PAGE) + _BESIDE_OTHERS) * lifetime:
                return int(starts[best])
        return self._apart(size, later)

    def _free_now(self, starts: Numbers, size: int) -> Numbers:
        order = np.argsort(self._ranges.begins)
        begins, ends = self._ranges.begins[order], self._ranges.ends[order]
        around = np.searchsorted(begins, starts, "right") - 1
        return starts[(around >= 0) & (ends[around] >= starts + size)]

    def _prices(self, starts: Numbers, birth: int, death: int, size: int, later: _Later | None) -> NDArray[np.float64]:
        """Weighted time for which pages are held for the block alone, and what else speaks against a place."""
        weight = self._weight
        lifetime = weight[death] - weight[birth]
        first, last = starts // GRAINS_A_PAGE, (starts + size - 1) // GRAINS_A_PAGE
        prices = (last - first + 1) * lifetime
        if later is not None:
            pages = np.concatenate([later.begins // GRAINS_A_PAGE, (later.ends - 1) // GRAINS_A_PAGE])
            np.minimum.at(self._held_from, pages, np.concatenate([later.births, later.births]))
        for page, counts in ((first, True), (last, last > first)):
            held = np.maximum(self._held_until[page], birth)
            shared = np.minimum(weight[held] - weight[birth], lifetime)
            if later is not None:
                from_ = np.maximum(self._held_from[page], held)
                shared = shared + (weight[death] - weight[np.minimum(from_, death)])
            misfit = np.maximum(weight[held] - weight[death], 0)
            prices = prices + np.where(counts, _MISFIT * misfit - shared, 0)
        if later is not None:
            self._held_from[pages] = self._blocks.event_count
        remainder = (last - first + 1) * GRAINS_A_PAGE - size
        return prices + _REMAINDER * lifetime * remainder / GRAINS_A_PAGE

    def _apart(self, size: int, later: _Later | None) -> int:
        """At the start of a page, in the middle of the largest free range."""
        largest = int(np.argmax(self._ranges.ends - self._ranges.begins))
        begin, end = int(self._ranges.begins[largest]), int(self._ranges.ends[largest])
        if later is not None:
            begin, end = later.largest_hole(begin, end)
        start = (begin + end - size) // 2 // GRAINS_A_PAGE * GRAINS_A_PAGE
        if start < begin:
            raise ValueError("the history needs more addresses than there are")
        return start

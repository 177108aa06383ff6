"""The free ranges of an address space, as arrays, so that all can be looked at together."""

from __future__ import annotations

import numpy as np

from .lifetimes import Numbers

_FIRST_ROOM = 1 << 12


class FreeRanges:
    """In no order. No two touch each other."""

    def __init__(self, end: int) -> None:
        self._begins = np.zeros(_FIRST_ROOM, np.int64)
        self._ends = np.zeros(_FIRST_ROOM, np.int64)
        self._count = 0
        # Where in the arrays the range is that begins, or ends, there.
        self._by_begin: dict[int, int] = {}
        self._by_end: dict[int, int] = {}
        self._add(0, end)

    @property
    def begins(self) -> Numbers:
        return self._begins[: self._count]

    @property
    def ends(self) -> Numbers:
        return self._ends[: self._count]

    def take(self, begin: int, end: int) -> None:
        """What lies in one free range is free no more."""
        index = self._by_begin.get(begin)
        if index is None:
            index = self._by_end.get(end)
        if index is None:
            index = int(np.flatnonzero((self.begins <= begin) & (self.ends >= end))[0])
        free_begin, free_end = self._remove(index)
        assert free_begin <= begin < end <= free_end
        if free_begin < begin:
            self._add(free_begin, begin)
        if end < free_end:
            self._add(end, free_end)

    def give(self, begin: int, end: int) -> None:
        """What was taken is free again."""
        before, after = self._by_end.get(begin), self._by_begin.get(end)
        if before is not None:
            begin, _ = self._remove(before)
        if after is not None:
            # Removing moves the last range to the place of the removed one.
            _, end = self._remove(self._by_begin[end])
        self._add(begin, end)

    def _add(self, begin: int, end: int) -> None:
        if self._count == len(self._begins):
            self._begins = np.concatenate([self._begins, np.zeros_like(self._begins)])
            self._ends = np.concatenate([self._ends, np.zeros_like(self._ends)])
        self._begins[self._count], self._ends[self._count] = begin, end
        self._by_begin[begin] = self._by_end[end] = self._count
        self._count += 1

    def _remove(self, index: int) -> tuple[int, int]:
        begin, end = int(self._begins[index]), int(self._ends[index])
        del self._by_begin[begin], self._by_end[end]
        self._count -= 1
        if index != self._count:
            last_begin, last_end = int(self._begins[self._count]), int(self._ends[self._count])
            self._begins[index], self._ends[index] = last_begin, last_end
            self._by_begin[last_begin] = self._by_end[last_end] = index
        return begin, end

"""Memory that reference cycles hold until Python's garbage collector runs."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

from .._native.epochs import Finding

if TYPE_CHECKING:
    from .._native import Library

# More in use than at any earlier end of an epoch, by this part and at least so many bytes: worth a collection.
LEAST_RISE = 0.01
LEAST_RISE_BYTES = 1 << 20
# At the first ends a model and its optimizer are still being made.
WARM_UP = 2
# A verdict takes so many collections that freed this part of the memory in use.
LEAST_TIMES = 3
LEAST_PART = 0.01
# gc.collect()'s: what was made lately takes a millisecond, all objects of a program with large libraries 0.2 s.
YOUNG, ALL = 1, 2


class Cycles:
    """Collects garbage at some ends of epochs at which more memory is in use than ever, and keeps count of what that
    frees.

    A collection holds the GIL for as long as Python's own would. So it is one of the objects that were made lately,
    unless a line seems to leak: its memory may be garbage that has become old. And collections become rarer and rarer:
    three that free memory of a line are enough to tell.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._looks = 0
        # In use after the collections at earlier ends, the most on each GPU.
        self._settled: dict[int, int] = {}
        # By generation, how often a collection would have been worth it.
        self._occasions: Counter[int] = Counter()
        # By GPU and site; the epochs are those at whose ends collections have freed some.
        self._freed: dict[tuple[int, int], Finding] = {}

    def look(self) -> None:
        """Called at the end of an epoch, before the library is told."""
        in_use = {gpu: self._library.stats(gpu)["allocated_bytes"] for gpu in self._library.gpus()}
        if self._looks < WARM_UP:
            self._looks += 1
            self._settled = in_use
            return
        if not any(self._has_risen(gpu, allocated) for gpu, allocated in in_use.items()):
            return
        seems_to_leak = any(finding.kind in ("suspect", "leak") for finding in self._library.findings())
        generation = ALL if seems_to_leak else YOUNG
        self._occasions[generation] += 1
        # At the first, third, seventh, fifteenth ... one.
        if self._occasions[generation] & (self._occasions[generation] + 1):
            return
        before = {(usage.gpu, usage.site): usage for usage in self._library.site_usages()}
        gc.collect(generation)
        freed = 0
        for gpu, allocated in in_use.items():
            now = self._library.stats(gpu)["allocated_bytes"]
            self._settled[gpu] = max(now, self._settled.get(gpu, 0))
            freed += max(0, allocated - now) if allocated - now >= LEAST_PART * allocated else 0
        if freed:
            self._count(before, in_use)

    def found(self) -> list[Finding]:
        """The sites whose memory was held by cycles often enough, most bytes first."""
        enough = [finding for finding in self._freed.values() if finding.epochs >= LEAST_TIMES]
        return sorted(enough, key=lambda finding: -finding.bytes)

    def _has_risen(self, gpu: int, allocated: int) -> bool:
        settled = self._settled.get(gpu, 0)
        return allocated - settled >= max(LEAST_RISE_BYTES, LEAST_RISE * settled)

    def _count(self, before: dict, in_use: dict[int, int]) -> None:
        after = {(usage.gpu, usage.site): usage for usage in self._library.site_usages()}
        for key, usage in before.items():
            left = after.get(key)
            freed = usage.live_bytes - (left.live_bytes if left else 0)
            part = freed / max(1, in_use[usage.gpu]) if usage.gpu in in_use else 0
            if part < LEAST_PART:
                continue
            blocks = usage.blocks - (left.blocks if left else 0)
            old = self._freed.get(key)
            times = old.epochs + 1 if old else 1
            self._freed[key] = Finding("cycle", *key, freed, blocks, times, float(freed), 1.0, 0)

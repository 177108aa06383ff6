"""Python's garbage, collected when a GPU is full: cycles of objects may hold tensors.

A full collection takes some 90 ms beside a torch that has been imported, and more the more objects there are. A program
that catches its out-of-memory errors may meet thousands, so collections in vain are not repeated without end.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

_YOUNG = 1
# As much memory is in use if it is so to a page of ours.
_ALIKE_BYTES = 2 << 20
_MOST_REMEMBERED = 64


class Collector:
    """Collects all garbage; but where as much memory is in use as at earlier collections in vain, only the first,
    second, fourth, eighth ... time. In between it collects what has just been made.

    An attempt that has failed leaves its frames and what they hold as garbage, and more in use than before: by the
    number of collections in vain alone, the next attempt would be refused that memory.
    """

    def __init__(self, in_use: Callable[[], list[int]]) -> None:
        """`in_use` tells the bytes that are allocated on each GPU."""
        self._in_use = in_use
        # By what was in use: how often it has been in vain.
        self._in_vain: dict[tuple[int, ...], int] = {}

    def collect(self) -> int:
        """Returns the number of objects that were found."""
        before = self._in_use()
        key = tuple(size // _ALIKE_BYTES for size in before)
        times = self._in_vain[key] = self._in_vain.pop(key, 0) + 1
        if len(self._in_vain) > _MOST_REMEMBERED:
            self._in_vain.pop(next(iter(self._in_vain)), None)
        found = gc.collect(_YOUNG) if times & (times - 1) else gc.collect()
        if sum(self._in_use()) < sum(before):
            self._in_vain.clear()
        return found

"""Memory of a GPU that no line of the program can be found for.

It belongs to other processes, to libraries with allocators of their own, or to PyTorch's private pools, in which CUDA
graphs live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._common.trend import TREND_CONFIDENCE, median_slope, rank_confidence
from .._native.epochs import Finding

if TYPE_CHECKING:
    from .._native import Library

LEAST_BOUNDARIES = 6
MOST_BOUNDARIES = 16
# Less than this from one end of an epoch to the next is a driver's own affair.
LEAST_GROWTH_BYTES = 1 << 20
# Of the findings: no line has made it.
NO_SITE = 0


class Outside:
    """The memory outside at the ends of the latest epochs."""

    def __init__(self, library: Library) -> None:
        self._library = library
        # By GPU, and whether it is of the pools: (steps, bytes).
        self._history: dict[tuple[int, bool], list[tuple[int, int]]] = {}
        # By GPU, when PyTorch's own allocator had most: how much, and what pools with captured graphs had of it.
        self._most: dict[int, tuple[int, int]] = {}

    def look(self, steps: int) -> None:
        """Called at the end of an epoch, which is after so many steps."""
        for gpu in self._library.gpus():
            outside, of_pools = amounts(gpu, self._library)
            for is_pools, amount in enumerate((outside, of_pools)):
                if amount is not None:
                    self._add((gpu, bool(is_pools)), steps, amount)
            if (of_pools or 0) > self._most.get(gpu, (0, 0))[0]:
                pools = [pool for pool in self._library.private_pools() if pool.gpu == gpu and pool.captured]
                self._most[gpu] = of_pools, sum(pool.native_reserved_bytes for pool in pools)

    def _add(self, key: tuple[int, bool], steps: int, amount: int) -> None:
        history = self._history.setdefault(key, [])
        if history and history[-1][0] == steps:
            history.pop()
        history.append((steps, amount))
        del history[:-MOST_BOUNDARIES]

    def more_than_before(self, gpu: int, amount: int) -> int:
        """By how much `amount` is above what was outside at the first of the latest ends; 0 if none is known."""
        history = self._history.get((gpu, False))
        return max(0, amount - history[0][1]) if history else 0

    def are_of_graphs(self, gpu: int) -> bool:
        """Whether CUDA graphs hold most of what PyTorch's own allocator does, as of when it had most: they may be gone
        by the time of the report."""
        most, captured = self._most.get(gpu, (0, 0))
        return 2 * captured > most

    def found(self, steps_per_epoch: float = 1.0) -> list[Finding]:
        """The GPUs on which it keeps growing: of kind "outside", or, where it is of the pools, "growing".

        Their bytes are what is there now, more than at the first of the latest ends, which are the finding's epochs.
        """
        findings = []
        for (gpu, is_pools), history in self._history.items():
            if len(history) < LEAST_BOUNDARIES:
                continue
            steps, amounts = zip(*history, strict=True)
            grown = amounts[-1] - amounts[0]
            # It must still go on: a library that has filled its buffers is done.
            is_rising = amounts[-1] > amounts[-1 - LEAST_BOUNDARIES // 2]
            if grown < LEAST_GROWTH_BYTES * len(history) or not is_rising:
                continue
            confidence = rank_confidence(amounts)
            if confidence >= TREND_CONFIDENCE:
                kind = "growing" if is_pools else "outside"
                rate = median_slope(amounts, steps) * steps_per_epoch
                findings.append(Finding(kind, gpu, NO_SITE, grown, 0, len(history), rate, confidence, 0))
        return findings


def amounts(gpu: int, library: Library) -> tuple[int | None, int | None]:
    """Bytes in use on a GPU that neither PyTorch's allocator nor ours holds, None where CUDA cannot tell; and those in
    the hands of PyTorch's own allocator: graphs' and MemPools', and tensors older than ours.

    Where the memory is the host's, CUDA cannot tell: files that the kernel keeps as long as nobody wants the room count
    as in use there.
    """
    import torch

    if not torch.cuda.is_initialized():
        return None, None
    # What memory_reserved() returns, which flattens all statistics for it, in some 100 us.
    reserved = torch.cuda.memory.memory_stats_as_nested_dict(gpu)["reserved_bytes"]["all"]["current"]
    of_pools = max(0, reserved - library.stats(gpu)["reserved_bytes"])
    try:
        if torch.cuda.get_device_properties(gpu).is_integrated:
            return None, of_pools
        free, total = torch.cuda.mem_get_info(gpu)
    except (RuntimeError, AssertionError):
        return None, of_pools
    return max(0, total - free - reserved), of_pools

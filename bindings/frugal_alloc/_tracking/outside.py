"""Memory of a GPU that no line of the program can be found for.

It belongs to other processes, to libraries with allocators of their own, or to PyTorch's private pools, in which CUDA
graphs live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .._common.trend import TREND_CONFIDENCE, median_slope, rank_confidence

if TYPE_CHECKING:
    from .._native import Library

LEAST_BOUNDARIES = 6
MOST_BOUNDARIES = 16
# Less than this from one end of an epoch to the next is a driver's own affair.
LEAST_GROWTH_BYTES = 1 << 20


class OutsideGrowth(NamedTuple):
    """How the memory outside, or of the pools, moved over the ends of the latest epochs."""

    gpu: int
    is_pools: bool
    bytes: int  # now, more than at the first of them
    boundaries: int
    bytes_per_step: float  # of what look() was told
    confidence: float


class Outside:
    """The memory outside at the ends of the latest epochs."""

    def __init__(self, library: Library) -> None:
        self._library = library
        # By GPU, and whether it is of the pools: (steps, bytes).
        self._history: dict[tuple[int, bool], list[tuple[int, int]]] = {}

    def look(self, steps: int) -> None:
        """Called at the end of an epoch, which is after so many steps."""
        for gpu in self._library.gpus():
            for is_pools, amount in enumerate(amounts(gpu, self._library)):
                if amount is not None:
                    self._add((gpu, bool(is_pools)), steps, amount)

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

    def found(self) -> list[OutsideGrowth]:
        """The GPUs on which it keeps growing."""
        found = []
        for (gpu, is_pools), history in self._history.items():
            if len(history) < LEAST_BOUNDARIES:
                continue
            steps, amounts = zip(*history, strict=True)
            confidence = rank_confidence(amounts)
            grown = amounts[-1] - amounts[0]
            # It must still go on: a library that has filled its buffers is done.
            is_rising = amounts[-1] > amounts[-1 - LEAST_BOUNDARIES // 2]
            if confidence >= TREND_CONFIDENCE and grown >= LEAST_GROWTH_BYTES * len(history) and is_rising:
                rate = median_slope(amounts, steps)
                found.append(OutsideGrowth(gpu, is_pools, grown, len(history), rate, confidence))
        return found


def now(gpu: int) -> int | None:
    """Bytes in use on a GPU that neither PyTorch's allocator nor ours holds; None where CUDA cannot tell."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    try:
        return _beyond(gpu, _reserved(gpu))
    except (RuntimeError, AssertionError):
        return None


def amounts(gpu: int, library: Library) -> tuple[int | None, int | None]:
    """What :func:`now` says, and the bytes of a GPU in the hands of PyTorch's own allocator: graphs' and MemPools', and
    tensors older than ours. The driver and PyTorch's allocator are asked once for both."""
    import torch

    if not torch.cuda.is_initialized():
        return None, None
    reserved = _reserved(gpu)
    return _beyond(gpu, reserved), max(0, reserved - library.stats(gpu)["reserved_bytes"])


def _beyond(gpu: int, reserved: int) -> int | None:
    """Bytes in use beyond those that PyTorch's allocator and ours have reserved.

    Where the memory is the host's, CUDA cannot tell: files that the kernel keeps as long as nobody wants the room count
    as in use there.
    """
    import torch

    try:
        if torch.cuda.get_device_properties(gpu).is_integrated:
            return None
        free, total = torch.cuda.mem_get_info(gpu)
    except (RuntimeError, AssertionError):
        return None
    return max(0, total - free - reserved)


def _reserved(gpu: int) -> int:
    """What torch.cuda.memory_reserved() returns, which flattens all statistics for it, in some 100 us."""
    import torch

    return torch.cuda.memory.memory_stats_as_nested_dict(gpu)["reserved_bytes"]["all"]["current"]

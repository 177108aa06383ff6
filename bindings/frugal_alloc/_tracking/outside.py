"""Memory of a GPU that no line of the program can be found for: of other processes and of libraries with allocators of
their own; and PyTorch's private pools, in which CUDA graphs live."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .._trend import TREND_CONFIDENCE, median_slope, rank_confidence

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
        """Called at the end of an epoch, which is after so many steps. Asks the driver once for each GPU."""
        for gpu in self._library.gpus():
            amounts = now(gpu), pools(gpu, self._library)
            for is_pools, amount in enumerate(amounts):
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
    """Bytes in use on a GPU that are not in PyTorch's or our hands; None where CUDA cannot tell: where the memory is
    the host's, files that the kernel keeps as long as nobody wants the room count as in use there."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    try:
        if torch.cuda.get_device_properties(gpu).is_integrated:
            return None
        free, total = torch.cuda.mem_get_info(gpu)
        return max(0, total - free - _reserved(gpu))
    except (RuntimeError, AssertionError):
        return None


def pools(gpu: int, library: Library) -> int | None:
    """Bytes of a GPU in the hands of PyTorch's own allocator: graphs' and MemPools', and tensors older than ours."""
    import torch

    if not torch.cuda.is_initialized():
        return None
    return max(0, _reserved(gpu) - library.stats(gpu)["reserved_bytes"])


def _reserved(gpu: int) -> int:
    """What torch.cuda.memory_reserved() returns, which flattens all statistics for it, in some 100 us."""
    import torch

    return torch.cuda.memory.memory_stats_as_nested_dict(gpu)["reserved_bytes"]["all"]["current"]

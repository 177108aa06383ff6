"""Memory of a GPU that no line of the program has.

It belongs to other processes, which may have shared it with this one; to libraries with allocators of their own; or to
private pools: what is free in those of CUDA graphs is for their replays alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any

from .._common.trend import TREND_CONFIDENCE, median_slope, rank_confidence
from .._native.epochs import Finding
from . import received

if TYPE_CHECKING:
    from .._heap.kept_pools import PoolId
    from .._native import Library
    from .._native.sites import PrivatePool
    from .received import Received

LEAST_BOUNDARIES = 6
MOST_BOUNDARIES = 16
# Less than this from one end of an epoch to the next is a driver's own affair.
LEAST_GROWTH_BYTES = 1 << 20
# Of the findings: no line has made it.
NO_SITE = 0
_NO_POOL = (0, 0)
_OUTSIDE, _IN_POOLS, _RECEIVED = "outside", "in pools", "received"


class _History:
    """The bytes of pools, or of others by any key, at the ends of the latest epochs, with the steps before each end."""

    def __init__(self) -> None:
        self._ends: deque[tuple[int, dict[Any, int]]] = deque(maxlen=MOST_BOUNDARIES)

    def add(self, steps: int, amounts: dict[Any, int]) -> None:
        if self._ends and self._ends[-1][0] == steps:
            self._ends.pop()
        self._ends.append((steps, amounts))

    @property
    def first_bytes(self) -> int:
        return sum(self._ends[0][1].values())

    @property
    def grown(self) -> Counter[Any]:
        """What has grown from the first of the ends to the latest."""
        grown = Counter(self._ends[-1][1])
        grown.subtract({pool: size for pool, size in self._ends[0][1].items() if pool in grown})
        return +grown

    def found(self, kind: str, gpu: int, steps_per_epoch: float) -> list[Finding]:
        """Whether all together keep growing. The bytes are those at the latest end, more than at the first; the epochs
        are the ends."""
        if len(self._ends) < LEAST_BOUNDARIES:
            return []
        steps, amounts = zip(*((steps, sum(by_pool.values())) for steps, by_pool in list(self._ends)), strict=True)
        grown = amounts[-1] - amounts[0]
        # It must still go on: a library that has filled its buffers is done.
        is_rising = amounts[-1] > amounts[-1 - LEAST_BOUNDARIES // 2]
        confidence = rank_confidence(amounts)
        if grown < LEAST_GROWTH_BYTES * len(amounts) or not is_rising or confidence < TREND_CONFIDENCE:
            return []
        rate = median_slope(amounts, steps) * steps_per_epoch
        return [Finding(kind, gpu, NO_SITE, grown, 0, len(amounts), rate, confidence, 0)]


class Outside:
    """The memory that no line has, at the ends of the latest epochs, by GPU."""

    def __init__(self, library: Library) -> None:
        self._library = library
        # By what it is, and GPU.
        self._histories: defaultdict[tuple[str, int], _History] = defaultdict(_History)
        # As of the latest end.
        self._pools: dict[PoolId, PrivatePool] = {}

    def look(self, steps: int) -> None:
        """Called at the end of an epoch, which is after so many steps."""
        # One that was released goes back when its memory is wanted.
        self._pools = {pool.id: pool for pool in self._library.private_pools() if pool.holders}
        opened = received.now()
        # A process that receives all its tensors has asked for no memory.
        for gpu in {*self._library.gpus(), *opened}:
            if (outside := amount(gpu)) is not None:
                self._histories[_OUTSIDE, gpu].add(steps, {_NO_POOL: outside})
            kept = {pool.id: pool.kept_bytes for pool in self._pools.values() if pool.gpu == gpu}
            self._histories[_IN_POOLS, gpu].add(steps, kept)
            self._histories[_RECEIVED, gpu].add(steps, {one: one.bytes for one in opened.get(gpu, [])})

    def more_than_before(self, gpu: int, outside: int) -> int:
        """By how much it is above what was outside at the first of the latest ends; 0 if none is known."""
        history = self._histories.get((_OUTSIDE, gpu))
        return max(0, outside - history.first_bytes) if history else 0

    def grown_pools(self, gpu: int) -> list[tuple[PrivatePool, int]]:
        """The pools that keep more than at the first of the latest ends, and by how much."""
        return [(self._pools[pool], grown) for pool, grown in self._grown(_IN_POOLS, gpu).items()]

    def newly_received(self, gpu: int) -> list[Received]:
        """What was received since the first of the latest ends, and is kept."""
        return list(self._grown(_RECEIVED, gpu))

    def _grown(self, what: str, gpu: int) -> Counter[Any]:
        history = self._histories.get((what, gpu))
        return Counter() if history is None else history.grown

    def found(self, steps_per_epoch: float = 1.0) -> list[Finding]:
        """The GPUs on which what is neither PyTorch's nor ours keeps growing, of kind "outside", unless it is what
        :meth:`found_received` has."""
        found = self._found(_OUTSIDE, "outside", steps_per_epoch)
        return [one for one in found if 2 * sum(kept.bytes for kept in self.newly_received(one.gpu)) < one.bytes]

    def found_in_pools(self, steps_per_epoch: float = 1.0) -> list[Finding]:
        """Those on which what private pools keep does, as a "leak" of the line whose pools have grown most."""
        findings = []
        for finding in self._found(_IN_POOLS, "leak", steps_per_epoch):
            by_site: Counter[int] = Counter()
            for pool, grown in self.grown_pools(finding.gpu):
                by_site[pool.site] += grown
            findings.append(finding._replace(site=max(by_site, key=by_site.__getitem__, default=NO_SITE)))
        return findings

    def found_received(self, steps_per_epoch: float = 1.0) -> list[Finding]:
        """Those on which what was received does."""
        return self._found(_RECEIVED, "leak", steps_per_epoch)

    def _found(self, what: str, kind: str, steps_per_epoch: float) -> list[Finding]:
        histories = [(gpu, history) for (of, gpu), history in self._histories.items() if of == what]
        return [found for gpu, history in histories for found in history.found(kind, gpu, steps_per_epoch)]


def amount(gpu: int) -> int | None:
    """Bytes in use on a GPU that neither PyTorch's allocator nor ours holds; None where CUDA cannot tell.

    It cannot where the memory is the host's: files that the kernel keeps as long as nobody wants the room count as in
    use there.
    """
    import torch

    if not torch.cuda.is_initialized():
        return None
    try:
        if torch.cuda.get_device_properties(gpu).is_integrated:
            return None
        free, total = torch.cuda.mem_get_info(gpu)
    except (RuntimeError, AssertionError):
        return None
    # What memory_reserved() returns, which flattens all statistics for it, in some 100 us.
    reserved = torch.cuda.memory.memory_stats_as_nested_dict(gpu)["reserved_bytes"]["all"]["current"]
    return max(0, total - free - reserved)

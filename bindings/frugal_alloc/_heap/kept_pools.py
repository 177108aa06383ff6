"""PyTorch's private pools that somebody holds, and the objects of Python's that do: CUDA graphs and MemPools.

A free segment of cudaMalloc of such a pool serves nobody else, and no line has it.
"""

from __future__ import annotations

import bisect
import functools
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from . import live_objects

if TYPE_CHECKING:
    from .._native import Library
    from .._native.sites import PrivatePool

PoolId = tuple[int, int]

#: Whose a pool is: of CUDA graphs; of a MemPool object; or of a capture that failed, which PyTorch keeps for ever, as
#: of 2.11.
GRAPHS, MEM_POOLS, LOST = "graphs", "MemPools", "lost"


class KeptPools:
    """Those on one GPU, as they are when first asked about."""

    def __init__(self, library: Library | None, gpu: int) -> None:
        self._library = library
        self._gpu = gpu

    def are_of_graphs(self) -> bool:
        """Whether a graph may be replayed. It reads its inputs where they were, which no variable tells."""
        import torch

        return bool(self._graphs) or torch.cuda.is_current_stream_capturing()

    def keep(self, address: int) -> bool:
        """Whether memory there stays with a pool when it is freed."""
        return self._pool_at(address) is not None

    def keep_for_graphs(self, address: int) -> bool:
        """Whether it lies in a pool of graphs."""
        return self._pool_at(address) in self._graphs

    def _pool_at(self, address: int) -> PoolId | None:
        at = bisect.bisect_right(self._segments, address, key=lambda segment: segment[0]) - 1
        return self._segments[at][2] if at >= 0 and address < self._segments[at][1] else None

    @functools.cached_property
    def _pools(self) -> dict[PoolId, PrivatePool]:
        pools = [] if self._library is None else self._library.private_pools()
        return {pool.id: pool for pool in pools if pool.gpu == self._gpu and pool.holders}

    @functools.cached_property
    def _graphs(self) -> set[PoolId]:
        return {pool for pool, kind in kinds(list(self._pools.values())).items() if kind == GRAPHS}

    @functools.cached_property
    def _segments(self) -> list[tuple[int, int, PoolId]]:
        """Where they begin and end, in the order of addresses."""
        import torch

        return sorted(
            (segment["address"], segment["address"] + segment["total_size"], segment["segment_pool_id"])
            for segment in (torch.cuda.memory_snapshot() if self._pools else ())
            if segment["device"] == self._gpu
            and segment["segment_pool_id"] in self._pools
            # What is mapped goes to others once it is free, unless a capture may have used it.
            and not (segment["is_expandable"] and not self._pools[segment["segment_pool_id"]].captured)
        )


def keeper_types() -> tuple[type, ...]:
    """The classes of objects that hold private pools: of graphs, and of MemPools."""
    cuda = sys.modules.get("torch.cuda")
    return () if cuda is None else (cuda.CUDAGraph, cuda.MemPool)


def keepers() -> list[tuple[PoolId, Any]]:
    """The objects that hold private pools, each with its pool's id."""
    found = live_objects.of_kinds(*keeper_types())
    return [(pool, value) for value in found if (pool := _pool_of(value)) is not None]


def _pool_of(keeper: Any) -> PoolId | None:
    try:
        return keeper.pool() if issubclass(type(keeper), keeper_types()[0]) else keeper.id
    except RuntimeError:  # nothing was captured, or the capture failed
        return None


def kinds(pools: list[PrivatePool]) -> dict[PoolId, str]:
    """Whose each of some pools is."""
    import torch

    captured = {pool.id for pool in pools if pool.captured}
    lost = {pool.id for pool in pools if pool.holders} & captured
    # A graph says which pool it holds only when its capture is over.
    if lost and torch.cuda.is_current_stream_capturing():
        lost.clear()
    elif lost:
        lost.difference_update(pool for pool, _ in keepers())
    return {pool.id: LOST if pool.id in lost else GRAPHS if pool.id in captured else MEM_POOLS for pool in pools}


def place_of(keeper: Any) -> int:
    """Stands for the address of what the object keeps; no memory lies there."""
    return -id(keeper)


def shares(kept: dict[PoolId, int]) -> list[tuple[int, int, int]]:
    """What of some pools' bytes each object keeps, as blocks at :func:`place_of` it."""
    found = [(pool, keeper) for pool, keeper in keepers() if pool in kept]
    count = Counter(pool for pool, _ in found)
    return [(place_of(keeper), kept[pool] // count[pool], -1) for pool, keeper in found]

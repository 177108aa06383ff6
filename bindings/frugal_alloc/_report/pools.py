"""Memory of a GPU that PyTorch's own allocator holds beside ours: that of CUDA graphs, of pools, and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._native import Library

_NAMES = {
    "graphs": "in CUDA graphs",
    "pools": "in memory pools",
    "rest": "with PyTorch's own allocator",
}


def rows(library: Library, gpu: int) -> list[dict[str, Any]]:
    """One for each kind of pool that holds memory: "pool" ("graphs", "pools" or "rest") and its bytes.

    A pool that graphs share through `torch.cuda.graph_pool_handle()` has a number like a MemPool's, and counts as one.
    """
    import torch

    if not library.stats(gpu)["native_reserved_bytes"]:
        return []
    found: dict[str, list[int]] = {}
    # All of the process's segments, ours too: there is no other way to learn of pools that only graphs know.
    for segment in torch.cuda.memory_snapshot():
        if segment["device"] == gpu and not library.owns(segment["address"]):
            sums = found.setdefault(_kind(segment.get("segment_pool_id", (0, 0))), [0, 0])
            sums[0] += segment["allocated_size"]
            sums[1] += segment["total_size"]
    return [
        {"pool": kind, "allocated_bytes": found[kind][0], "reserved_bytes": found[kind][1]}
        for kind in _NAMES
        if kind in found
    ]


def _kind(pool: tuple[int, int]) -> str:
    """A graph's own pool is numbered in the first place, what the program has made in the second."""
    of_graph, of_program = pool
    return "graphs" if of_graph else "pools" if of_program else "rest"


def in_use(row: dict[str, Any]) -> int:
    """What torch.cuda.memory_allocated() says of the GPU of a document's row."""
    return row["allocated_bytes"] + (row.get("native_allocated_bytes") or 0)


def peak(row: dict[str, Any]) -> int:
    """What torch.cuda.max_memory_allocated() says."""
    return max(row["peak_allocated_bytes"], row.get("peak_in_use_bytes") or 0)


def held(row: dict[str, Any]) -> int:
    """What torch.cuda.memory_reserved() says."""
    return row["reserved_bytes"] + row["native_reserved_bytes"]


def parts(row: dict[str, Any]) -> list[tuple[str, int]]:
    """What of the memory in use is PyTorch's own allocator's: where, and how much."""
    return [(_NAMES[one["pool"]], one["allocated_bytes"]) for one in row.get("pools") or [] if one["allocated_bytes"]]

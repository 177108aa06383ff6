"""What is told of the private pools of PyTorch's allocator, those of CUDA graphs and of ``torch.cuda.MemPool``."""

from __future__ import annotations

from typing import Any

from .._common.messages import format_bytes
from .._heap import kept_pools
from .._native import Library
from .._native.sites import users_line

# Smaller ones are not worth a line, and of the rest the largest are told.
_LEAST_BYTES = 1 << 20
_MOST = 3


def rows(library: Library, gpu: int) -> list[dict[str, Any]]:
    """As a document has them, the largest first."""
    found = []
    pools = [pool for pool in library.private_pools() if pool.gpu == gpu]
    kinds = kept_pools.kinds(pools)
    for pool in pools:
        frame = users_line(library, library.site(pool.site)) if pool.site else None
        place = {"file": frame.file, "line": frame.line} if frame is not None else {"file": None, "line": None}
        kind = kinds[pool.id]
        state = {
            "captured": kind != kept_pools.MEM_POOLS,
            "released": pool.holders == 0,
            "lost": kind == kept_pools.LOST,
        }
        found.append(place | state | {key: getattr(pool, key) for key in pool._fields if key.endswith("_bytes")})
    return sorted(found, key=lambda row: -row["reserved_bytes"])


def idle_bytes(pools: list[dict[str, Any]]) -> int:
    """What comes back once nobody holds the pools."""
    return sum(row["idle_bytes"] for row in pools if not row["released"] and not row["lost"])


def table(pools: list[dict[str, Any]], place: Any) -> list[str]:
    """A line for each pool that matters: how much it holds, who made it, and what is free of it.

    Args:
        pools: The rows of a document, or of an answer to ``frugal-alloc top``, the largest first.
        place: Writes where a row's pool was made; "" where that is not known.
    """
    matter = [row for row in pools if row["reserved_bytes"] >= _LEAST_BYTES]
    return [f"{format_bytes(row['reserved_bytes']):>11}  {_sentence(row, place(row))}" for row in matter[:_MOST]]


def _sentence(row: dict[str, Any], place: str) -> str:
    # What `frugal-alloc top` is told of a process does not say what is lost.
    is_lost = row.get("lost", False)
    of_graphs = "capture" if is_lost else "CUDA graphs"
    name = "released pool" if row["released"] else of_graphs if row["captured"] else "MemPool"
    free = format_bytes(row["reserved_bytes"] - row["allocated_bytes"])
    text = f"{name}{f' of {place}' if place else ''}: {format_bytes(row['allocated_bytes'])} allocated, {free} free; "
    if row["released"]:
        return text + "its tensors keep it" if row["allocated_bytes"] else text + "goes back when it is wanted"
    if is_lost:
        return text + "no graph came of it that could be reset"
    how = "resetting them" if row["captured"] else "deleting it"
    return f"{text}{how} gives back {format_bytes(row['idle_bytes'])}"

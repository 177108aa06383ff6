"""What the document says of a GPU: its memory by who holds it, and the time of our calls of the driver; also in words.

PyTorch's own allocator may hold memory beside ours: what is older, or was made while ours was disabled.
"""

from __future__ import annotations

from typing import Any

from .._common.messages import format_bytes, format_count
from .._native import Library
from .._tracking import outside as memory_outside
from . import private_pools

_POOL_NAMES = {
    "graphs": "in CUDA graphs",
    "pools": "in memory pools",
    "rest": "with PyTorch's own allocator",
}
_OURS = ("allocated_bytes", "peak_allocated_bytes", "reserved_bytes", "peak_reserved_bytes")
_DRIVER, _CALLS = "driver_", "_calls"


def row(library: Library, gpu: int) -> dict[str, Any]:
    """What the document says of a GPU."""
    import torch

    stats = library.stats(gpu)
    asleep = next((one for one in library.asleep() if one["gpu"] == gpu), {"tags": [], "host_bytes": 0})
    name, total, native, native_in_use, peak, pools, outside = "", 0, 0, 0, stats["peak_allocated_bytes"], [], None
    if torch.cuda.is_initialized():
        properties = torch.cuda.get_device_properties(gpu)
        name, total = properties.name, properties.total_memory
        native, native_in_use = stats["native_reserved_bytes"], stats["native_allocated_bytes"]
        peak = max(peak, torch.cuda.max_memory_allocated(gpu), stats["allocated_bytes"] + native_in_use)
        pools = private_pools.rows(library, gpu)
        outside = memory_outside.amount(gpu)
    return {
        "gpu": gpu,
        "name": name,
        "total_bytes": total,
        "limit_bytes": stats["limit_bytes"] or total,
        **{name: stats[name] for name in _OURS},
        "awaiting_bytes": max(0, stats["active_bytes"] - stats["allocated_bytes"]),
        "native_reserved_bytes": native,
        "native_allocated_bytes": native_in_use,
        "peak_in_use_bytes": peak,
        "pools": _kinds(pools, native_in_use, native),
        "private_pools": pools,
        "asleep": [{"tag": one["tag"], "bytes": one["asleep_bytes"]} for one in asleep["tags"]],
        "asleep_host_bytes": asleep["host_bytes"],
        "outside_bytes": outside or 0,
        "driver_calls": _driver_calls(stats),
    }


def _kinds(pools: list[dict[str, Any]], native_in_use: int, native: int) -> list[dict[str, Any]]:
    """One for each kind of memory that is no ordinary memory of ours: "pool" and its bytes. "graphs" and "pools" are
    private pools, parts of ours; "rest" is all that PyTorch's own allocator has."""
    sums = {"graphs": [0, 0], "pools": [0, 0], "rest": [native_in_use, native]}
    for pool in pools:
        of_kind = sums["graphs" if pool["captured"] and not pool["lost"] else "pools"]
        of_kind[0] += pool["allocated_bytes"]
        of_kind[1] += pool["reserved_bytes"]
    return [
        {"pool": kind, "allocated_bytes": in_use, "reserved_bytes": held}
        for kind, (in_use, held) in sums.items()
        if held > 0
    ]


def _driver_calls(stats: dict[str, int]) -> list[dict[str, Any]]:
    """Of each kind of call that was made, by the figures of :func:`frugal_alloc.memory_stats`."""
    kinds = [name[len(_DRIVER) : -len(_CALLS)] for name in stats if name.startswith(_DRIVER) and name.endswith(_CALLS)]
    return [
        {
            "call": kind,
            "calls": stats[f"{_DRIVER}{kind}{_CALLS}"],
            "total_ns": stats[f"{_DRIVER}{kind}_ns"],
            "worst_ns": stats[f"{_DRIVER}{kind}_worst_ns"],
        }
        for kind in kinds
        if stats[f"{_DRIVER}{kind}{_CALLS}"]
    ]


def in_use(row: dict[str, Any]) -> int:
    """What torch.cuda.memory_allocated() says of the GPU of a document's row."""
    return row["allocated_bytes"] + (row.get("native_allocated_bytes") or 0)


def peak(row: dict[str, Any]) -> int:
    """What torch.cuda.max_memory_allocated() says."""
    return max(row["peak_allocated_bytes"], row.get("peak_in_use_bytes") or 0)


def held(row: dict[str, Any]) -> int:
    """What torch.cuda.memory_reserved() says."""
    return row["reserved_bytes"] + row["native_reserved_bytes"]


def pool_parts(row: dict[str, Any]) -> list[tuple[str, int]]:
    """What of the memory in use is in no ordinary memory of ours: where, and how much."""
    held = [(_POOL_NAMES[pool["pool"]], pool["allocated_bytes"]) for pool in row.get("pools") or []]
    return [(where, size) for where, size in held if size]


def asleep_sentence(row: dict[str, Any]) -> str:
    """How much of what is allocated sleeps, by tag, and the host memory for it; "" if nothing does."""
    tags = sorted(row.get("asleep") or [], key=lambda one: -one["bytes"])
    if not tags:
        return ""
    by_tag = ", ".join(f"{one['tag'] or 'no tag'} {format_bytes(one['bytes'])}" for one in tags)
    total, host = sum(one["bytes"] for one in tags), row["asleep_host_bytes"]
    return f"{format_bytes(total)} of it asleep ({by_tag}), with {format_bytes(host)} of host memory"


def driver_sentence(calls: list[dict[str, Any]]) -> str:
    """How much time the driver took, and which kind of call most of it; "" if there were no calls."""
    if not calls:
        return ""
    most = max(calls, key=lambda row: row["total_ns"])
    count = format_count(sum(row["calls"] for row in calls), "call")
    return (
        f"{count} of the driver took {_time(sum(row['total_ns'] for row in calls))}, most of it {most['call']}: "
        f"{format_count(most['calls'], 'call')}, {_time(most['total_ns'])}, the longest {_time(most['worst_ns'])}"
    )


def _time(nanoseconds: int) -> str:
    """2.31 s, 41 ms, 37 µs: three digits."""
    for unit, name in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if nanoseconds >= unit:
            amount = nanoseconds / unit
            return f"{amount:,.3g} {name}" if amount < 1000 else f"{amount:,.0f} {name}"
    return f"{nanoseconds} ns"

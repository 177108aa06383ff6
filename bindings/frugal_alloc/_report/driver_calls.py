"""What our calls of the CUDA driver took: rows of the document, and a sentence for people."""

from __future__ import annotations

from typing import Any

from .._common.messages import format_count

_PREFIX, _COUNT = "driver_", "_calls"


def rows(stats: dict[str, int]) -> list[dict[str, Any]]:
    """Of each kind of call that was made, by the figures of :func:`frugal_alloc.stats`."""
    kinds = [name[len(_PREFIX) : -len(_COUNT)] for name in stats if name.startswith(_PREFIX) and name.endswith(_COUNT)]
    return [
        {
            "call": kind,
            "calls": stats[f"{_PREFIX}{kind}{_COUNT}"],
            "total_ns": stats[f"{_PREFIX}{kind}_ns"],
            "worst_ns": stats[f"{_PREFIX}{kind}_worst_ns"],
        }
        for kind in kinds
        if stats[f"{_PREFIX}{kind}{_COUNT}"]
    ]


def sentence(calls: list[dict[str, Any]]) -> str:
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
            return (
                f"{nanoseconds / unit:,.3g} {name}"
                if nanoseconds < 1000 * unit
                else f"{nanoseconds / unit:,.0f} {name}"
            )
    return f"{nanoseconds} ns"

"""A recorded training through PyTorch's allocator and ours, on the smallest GPU that ours completes it on.

What is drawn was replayed on the simulated GPU: docs/pictures/memory_over_time.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from . import stories
from .line_chart import Kind, Level, Line, LineChart, Mark

HISTORY = "frcnn60"
_SAMPLES = 400
# Of the smallest GPU, in parts of what tensors need; that of the figures in the documents.
_TOLERANCE = 0.0005


def record() -> dict[str, Any]:
    """Replays the history: once for the smallest GPU, then with each allocator on it."""
    from frugal_alloc._planning.replay import history_files, replays
    from frugal_alloc._planning.replay.history import live_bytes

    history = history_files.read(history_files.find(HISTORY))
    replayer = replays.Replayer()
    smallest = replayer.measure(
        history, "frugal", replays.DEFAULT_CAPACITY, True, passes=1, tolerance=_TOLERANCE
    ).min_capacity_bytes
    count = history.event_count
    starts = [-(-number * count // _SAMPLES) for number in range(_SAMPLES)]
    live = [0] * _SAMPLES
    for event, size in enumerate(live_bytes(history.events)):
        live[event * _SAMPLES // count] = max(live[event * _SAMPLES // count], size)
    data = {"live_bytes": [[start, size] for start, size in zip(starts, live, strict=True)]}
    for allocator in ("native", "expandable", "frugal"):
        held = replayer.held(history, allocator, smallest, _SAMPLES)
        last = count if held.failed_at is None else held.failed_at
        points = [[start, size] for start, size in zip(starts, held.samples, strict=True) if start <= last]
        data[allocator] = {"failed_at": held.failed_at, "error": held.error, "held_bytes": _changes(points)}
    return {"history": HISTORY, "events": count, "gpu_bytes": smallest, **data}


def _changes(points: list[list[int]]) -> list[list[int]]:
    """Points whose value is not that of the one before, and the last."""
    return [points[0], *(then for before, then in pairwise(points) if then[1] != before[1])]


def chart(data: dict[str, Any]) -> LineChart:
    gpu, events = data["gpu_bytes"], data["events"]
    failed = [
        _line(data, "native", "native", "PyTorch"),
        _line(data, "expandable", "expandable", "expandable segments"),
    ]
    live = [*data["live_bytes"], [events, data["live_bytes"][-1][1]]]
    return LineChart(
        title=f"Memory of a Faster R-CNN in training, on a GPU of {stories.gib(gpu)} GiB",
        x_name="allocations and frees, in thousands",
        unit="GiB",
        lines=(
            Line("what tensors need", "live", _thousands(live)),
            _line(data, "frugal", "ours", "frugal_alloc holds"),
            *failed,
        ),
        levels=(Level("the GPU's memory", gpu),),
        marks=tuple(Mark("out of memory", *line.points[-1], line.kind) for line in failed),
    )


def _line(data: dict[str, Any], allocator: str, kind: Kind, name: str) -> Line:
    """What an allocator held, up to the end or to where it ran out of memory."""
    held, failed_at = data[allocator]["held_bytes"], data[allocator]["failed_at"]
    end = data["events"] if failed_at is None else failed_at
    return Line(name, kind, _thousands([*held, [end, held[-1][1]]]))


def _thousands(points: Iterable[list[int]]) -> list[tuple[float, float]]:
    return [(event / 1000, size) for event, size in points]


def told(data: dict[str, Any]) -> dict[str, str]:
    need = max(size for _, size in data["live_bytes"])
    native, expandable = (data[one]["failed_at"] for one in ("native", "expandable"))
    return {
        "said": f"A Faster R-CNN in training needs {stories.gib(need)} GiB at most. On a GPU of "
        f"{stories.gib(data['gpu_bytes'])} GiB PyTorch's allocator runs out of memory after {native:,} of "
        f"{data['events']:,} allocations and frees, and with expandable segments after {expandable:,}. With "
        "frugal_alloc the run completes.",
    }

"""Where the parts of a chart of memory over steps lie, as fractions of its width and height. The template draws it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from .._common.messages import format_bytes
from .pages import geometry
from .pages.geometry import Tick

# As many as there are pixels to tell them apart on a desktop.
_MOST_POINTS = 500
_MOST_STEP_LABELS, _MOST_EPOCH_LABELS = 5, 12


def charts(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What the template draws: one for each GPU with at least two points, by its number."""
    rows: dict[int, list[list]] = {}
    for point in document["timeline"]["points"]:
        rows.setdefault(point[0], []).append(point)
    failed = _add_error(document, rows)
    limits = {gpu["gpu"]: gpu["limit_bytes"] or gpu["total_bytes"] for gpu in document["gpus"]}
    names = document["timeline"]["phases"]
    return [
        _chart(gpu, geometry.thinned(rows[gpu], _MOST_POINTS, _merged), names, limits.get(gpu, 0), gpu == failed)
        for gpu in sorted(rows)
        if len(rows[gpu]) > 1
    ]


def _add_error(document: dict[str, Any], rows: dict[int, list[list]]) -> int | None:
    """The moment at which memory ran out as the last point, if the run got no further; returns the GPU then."""
    oom = document["oom"]
    if not oom or oom["went_on"] or oom["step"] != document["epochs"]["steps"] or oom["gpu"] not in rows:
        return None
    last = rows[oom["gpu"]][-1]
    held = oom["allocated_bytes"]
    rows[oom["gpu"]].append([*last[:1], oom["step"], *last[2:4], held, max(held, last[5]), oom["reserved_bytes"]])
    return oom["gpu"]


def _merged(rows: Sequence[list]) -> list:
    """The highest values of those in whose place it stands."""
    return [*rows[-1][:4], *(max(row[column] for row in rows) for column in (4, 5, 6))]


def _chart(gpu: int, rows: list[list], names: list[str], limit: int, failed: bool) -> dict[str, Any]:
    ticks, top = geometry.bytes_ticks(max(1, *(max(row[4:7]) for row in rows)), limit)
    # By order, not by step: evaluation and the like pass without steps, and would all lie on one line.
    places = [100 * number / (len(rows) - 1) for number in range(len(rows))]
    allocated, peak, reserved = ([row[column] for row in rows] for column in (4, 5, 6))
    return {
        "gpu": gpu,
        # The step, epoch and phase, and what was allocated, the peak and reserved.
        "points": [(row[1], row[2], names[row[3]], *map(format_bytes, row[4:7])) for row in rows],
        "allocated_path": geometry.line(allocated, top),
        "peak_path": geometry.line(peak, top),
        "reserved_path": geometry.line(reserved, top),
        "limit_y": geometry.limit_y(limit, top),
        "bytes_ticks": ticks,
        "step_ticks": _step_ticks(rows, places, failed),
        "epochs": list(_epoch_starts(rows, places)),
        "phases": list(_phase_runs(rows, places, names)),
        "first_bytes": allocated[0],
        "last_bytes": allocated[-1],
    }


def _step_ticks(rows: list[list], places: list[float], failed: bool) -> list[Tick]:
    """At equal distances, the first and the last point among them."""
    wanted = min(len(rows), _MOST_STEP_LABELS)
    chosen = sorted({round(number * (len(rows) - 1) / (wanted - 1)) for number in range(wanted)})
    ticks = [Tick(places[n], f"{rows[n][1]:,}") for n in chosen]
    return [*ticks[:-1], Tick(100.0, "out of memory")] if failed else ticks


def _epoch_starts(rows: list[list], places: list[float]) -> Iterator[Tick]:
    starts = [n for n in range(len(rows)) if n == 0 or rows[n][2] != rows[n - 1][2]]
    if len(starts) < 2:
        return
    every = math.ceil(len(starts) / _MOST_EPOCH_LABELS)
    for number, start in enumerate(starts):
        yield Tick(places[start], str(rows[start][2]) if number % every == 0 else "")


def _phase_runs(rows: list[list], places: list[float], names: list[str]) -> Iterator[dict[str, Any]]:
    """Points in a row of one phase; the "colour" is its number among the phases."""
    named = [phase for phase in dict.fromkeys(row[3] for row in rows) if names[phase]]
    if not named:
        return
    # Time that is in no phase comes last, so that the first phase always has the first colour.
    colours = {phase: number for number, phase in enumerate(named)}
    for phase, group in itertools.groupby(range(len(rows)), key=lambda number: rows[number][3]):
        numbers = list(group)
        start, end = places[numbers[0]], places[min(numbers[-1] + 1, len(rows) - 1)]
        name, colour = names[phase] or "no phase", colours.get(phase, len(named))
        yield {"start": start, "width": max(end - start, 0.2), "name": name, "colour": colour}

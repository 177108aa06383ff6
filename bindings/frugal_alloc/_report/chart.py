"""Where the parts of a chart of memory over steps lie, as fractions of its width and height. The template draws it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from .pages import geometry
from .pages.geometry import Tick

# As many as there are pixels to tell them apart on a desktop.
_MOST_POINTS = 500
_MOST_EPOCH_LABELS = 12


@dataclasses.dataclass(frozen=True)
class PhaseRun:
    """Points in a row of one phase, in percent of the chart's width. `colour` is its number among the phases."""

    start: float
    width: float
    name: str
    colour: int


@dataclasses.dataclass(frozen=True)
class MemoryChart:
    """One GPU's memory over steps. Points are (step, epoch, phase, allocated, peak, reserved)."""

    gpu: int
    points: list[tuple[int, int, str, int, int, int]]
    allocated_path: str
    peak_path: str
    reserved_path: str
    limit_y: float | None
    bytes_ticks: list[Tick]
    step_ticks: list[Tick]
    epochs: list[Tick]
    phases: list[PhaseRun]
    first_bytes: int
    last_bytes: int


def charts(document: dict[str, Any]) -> list[MemoryChart]:
    """One for each GPU with at least two points, by its number."""
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


def _chart(gpu: int, rows: list[list], names: list[str], limit: int, failed: bool) -> MemoryChart:
    most = max(1, *(max(row[4:7]) for row in rows))
    ticks, top = geometry.bytes_ticks(most, limit)
    # By order, not by step: evaluation and the like pass without steps, and would all lie on one line.
    places = [100 * number / (len(rows) - 1) for number in range(len(rows))]
    return MemoryChart(
        gpu=gpu,
        points=[(row[1], row[2], names[row[3]], *row[4:7]) for row in rows],
        allocated_path=geometry.line([row[4] for row in rows], top),
        peak_path=geometry.line([row[5] for row in rows], top),
        reserved_path=geometry.line([row[6] for row in rows], top),
        limit_y=geometry.limit_y(limit, top),
        bytes_ticks=ticks,
        step_ticks=_step_ticks(rows, places, failed),
        epochs=list(_epoch_starts(rows, places)),
        phases=list(_phase_runs(rows, places, names)),
        first_bytes=rows[0][4],
        last_bytes=rows[-1][4],
    )


def _merged(rows: Sequence[list]) -> list:
    """The highest values of those in whose place it stands."""
    return [*rows[-1][:4], *(max(row[column] for row in rows) for column in (4, 5, 6))]


def _step_ticks(rows: list[list], places: list[float], failed: bool) -> list[Tick]:
    ticks = [Tick(places[n], f"{rows[n][1]:,}") for n in _spread(len(rows), 5)]
    return [*ticks[:-1], Tick(100.0, "out of memory")] if failed else ticks


def _spread(count: int, most: int) -> list[int]:
    """Numbers below `count` at equal distances, the first and the last among them."""
    wanted = min(count, most)
    return sorted({round(number * (count - 1) / (wanted - 1)) for number in range(wanted)})


def _epoch_starts(rows: list[list], places: list[float]) -> Iterator[Tick]:
    starts = [n for n in range(len(rows)) if n == 0 or rows[n][2] != rows[n - 1][2]]
    if len(starts) < 2:
        return
    every = math.ceil(len(starts) / _MOST_EPOCH_LABELS)
    for number, start in enumerate(starts):
        yield Tick(places[start], str(rows[start][2]) if number % every == 0 else "")


def _phase_runs(rows: list[list], places: list[float], names: list[str]) -> Iterator[PhaseRun]:
    named = [phase for phase in dict.fromkeys(row[3] for row in rows) if names[phase]]
    if not named:
        return
    # Time that is in no phase comes last, so that the first phase always has the first colour.
    colours = {phase: number for number, phase in enumerate(named)}
    for phase, group in itertools.groupby(range(len(rows)), key=lambda number: rows[number][3]):
        numbers = list(group)
        end = places[min(numbers[-1] + 1, len(rows) - 1)]
        yield PhaseRun(
            places[numbers[0]],
            max(end - places[numbers[0]], 0.2),
            names[phase] or "no phase",
            colours.get(phase, len(named)),
        )

"""The geometry of the page's pictures, in the units of an SVG's viewBox; the template draws it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from frugal_alloc._pages import scale

from .replays import STATES, Input

_GIB = 1 << 30

# Drawn about as large as they are shown, so that text keeps its size on a phone.
WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, _TOP, _BOTTOM = 40, 354, 12, 164
_MOST_POINTS = 200

STRIP_WIDTH, STRIP_HEIGHT = 600, 24
_CELLS = 300


@dataclasses.dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclasses.dataclass(frozen=True)
class Line:
    """What one allocator held over time."""

    allocator: str
    path: str
    peak_bytes: int


@dataclasses.dataclass(frozen=True)
class MemoryChart:
    """Memory over the events of a history: live as an area, what each allocator held as a line."""

    history: str
    events: int
    live_path: str
    live_peak_bytes: int
    lines: list[Line]
    ticks: list[Tick]


@dataclasses.dataclass(frozen=True)
class Strip:
    """An allocator's address space, where most memory was live, from its lowest address to its highest."""

    allocator: str
    # One path for each state but holes, which are where nothing is drawn.
    paths: dict[str, str]
    width: float
    bytes_by_state: dict[str, int]
    free_pieces: int
    largest_free_bytes: int
    # Whether holes, which cost nothing, are drawn shorter than they are.
    shortened: bool


@dataclasses.dataclass(frozen=True)
class StripChart:
    history: str
    strips: list[Strip]


def memory_chart(history: Input, series: dict[str, list[tuple[int, int, int]]]) -> MemoryChart | None:
    """None where there is nothing to draw.

    Args:
        series: of each allocator; (event, live bytes, reserved bytes) up to the next sample, by event.
    """
    series = {allocator: samples for allocator, samples in series.items() if samples}
    if not series:
        return None
    longest = max(series.values(), key=lambda samples: samples[-1][0])
    end = max(history.events, longest[-1][0] + 1)
    most = max(max(live, held) for samples in series.values() for _, live, held in samples)
    ticks, top = _ticks(most)
    live = [(event, live) for event, live, _ in longest]

    def path(samples: Iterable[tuple[int, int]]) -> str:
        return _steps(_thinned(list(samples)), end, top)

    return MemoryChart(
        history=history.name,
        events=end,
        live_path=f"{path(live)}V{_BOTTOM}H{LEFT}Z",
        live_peak_bytes=max(value for _, value in live),
        lines=[
            Line(allocator, path((event, held) for event, _, held in samples), max(held for *_, held in samples))
            for allocator, samples in series.items()
        ],
        ticks=ticks,
    )


def _ticks(most: int) -> tuple[list[Tick], float]:
    """Round numbers of GiB from 0 up to above the most, and the bytes at the top of the chart."""
    gib = max(most / _GIB, 1e-9)
    step = scale.round_step(gib)
    count = math.ceil(gib / step * 0.999)
    top = max(count * step, gib * 1.02)
    labels = [n * step for n in range(count + 1)]
    return [Tick(_y(value * _GIB, top * _GIB), f"{value:.4g}") for value in labels], top * _GIB


def _y(value: float, top: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * value / top, 1)


def _thinned(samples: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most so many samples, each the highest of those in whose place it stands."""
    per = max(1, math.ceil(len(samples) / _MOST_POINTS))
    groups = (samples[start : start + per] for start in range(0, len(samples), per))
    return [(group[0][0], max(value for _, value in group)) for group in groups]


def _steps(samples: list[tuple[int, int]], end: int, top: float) -> str:
    """A path that goes on level from each sample to the next."""
    path, last = f"M{LEFT}", None
    for event, value in samples:
        x, y = round(LEFT + (RIGHT - LEFT) * event / end, 1), _y(value, top)
        if last is None:
            path += f" {y:g}"
        elif y != last:
            path += f"H{x:g}V{y:g}"
        last = y
    return f"{path}H{RIGHT}"


def strip_chart(history: Input, runs: dict[str, list[tuple[int, int, str]]]) -> StripChart | None:
    """None where there is nothing to draw. Strips have one scale, so that their lengths can be compared."""
    totals = {allocator: _bytes_by_state(found) for allocator, found in runs.items() if found}
    # Holes would leave no room for the rest where most addresses are one: they get as much as the rest at most.
    scales = {allocator: _hole_scale(total) for allocator, total in totals.items()}
    lengths = {name: total["hole"] * scales[name] + _held(total) for name, total in totals.items()}
    longest = max(lengths.values(), default=0)
    if not longest:
        return None
    strips = []
    for allocator, total in totals.items():
        drawn = [(size * (scales[allocator] if state == "hole" else 1), state) for _, size, state in runs[allocator]]
        free = [size for _, size, state in runs[allocator] if state == "free"]
        strips.append(
            Strip(
                allocator=allocator,
                paths=_stacked(_cells(drawn, longest / _CELLS)),
                width=round(STRIP_WIDTH * lengths[allocator] / longest, 1),
                bytes_by_state=total,
                free_pieces=len(free),
                largest_free_bytes=max(free, default=0),
                shortened=scales[allocator] < 1,
            )
        )
    return StripChart(history.name, strips)


def _bytes_by_state(runs: list[tuple[int, int, str]]) -> dict[str, int]:
    totals = dict.fromkeys(STATES, 0)
    for _, size, state in runs:
        totals[state] += size
    return totals


def _held(total: dict[str, int]) -> int:
    return sum(total.values()) - total["hole"]


def _hole_scale(total: dict[str, int]) -> float:
    return min(1.0, _held(total) / total["hole"]) if total["hole"] else 1.0


def _cells(runs: list[tuple[float, str]], per: float) -> list[list[float]]:
    """For each stretch of `per` bytes, how much of it is in each state. Gaps between ranges are left out."""
    cells = [[0.0] * len(STATES) for _ in range(_CELLS)]
    start = 0.0
    for size, state in runs:
        end = start + size
        for cell in range(int(start / per), min(_CELLS, math.ceil(end / per))):
            covered = min(end, (cell + 1) * per) - max(start, cell * per)
            cells[cell][STATES.index(state)] += max(0.0, covered / per)
        start = end
    return cells


def _stacked(cells: list[list[float]]) -> dict[str, str]:
    """Live at the bottom, then awaiting, then free: an outline of each over the whole width."""
    paths = {}
    floor = [0.0] * len(cells)
    for number, state in enumerate(STATES[:-1]):
        ceiling = [low + cell[number] for low, cell in zip(floor, cells, strict=True)]
        if any(high > low for low, high in zip(floor, ceiling, strict=True)):
            paths[state] = _outline(floor, ceiling)
        floor = ceiling
    return paths


def _outline(floor: list[float], ceiling: list[float]) -> str:
    """There along the ceiling, and back along the floor, with a corner only where the height changes."""
    step = STRIP_WIDTH / len(floor)

    def y(height: float) -> str:
        return f"{STRIP_HEIGHT * (1 - min(1.0, height)):.1f}".removesuffix(".0")

    path = f"M0 {y(ceiling[0])}"
    for n in range(1, len(ceiling)):
        if y(ceiling[n]) != y(ceiling[n - 1]):
            path += f"H{n * step:g}V{y(ceiling[n])}"
    path += f"H{STRIP_WIDTH}V{y(floor[-1])}"
    for n in range(len(floor) - 1, 0, -1):
        if y(floor[n - 1]) != y(floor[n]):
            path += f"H{n * step:g}V{y(floor[n - 1])}"
    return f"{path}H0Z"

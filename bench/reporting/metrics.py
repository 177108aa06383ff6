"""Figures of every history and allocator, as tables whose cells have bars."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from .replays import Play, Replays

OURS = "frugal"
NOTHING = "\N{EN DASH}"
_GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Cell:
    """A figure of one allocator, and its length in percent of the longest."""

    allocator: str
    text: str
    length: float
    # Nobody's figure of this history is better.
    best: bool


@dataclasses.dataclass(frozen=True)
class Row:
    history: str
    generated: bool
    cells: list[Cell]


@dataclasses.dataclass(frozen=True)
class Worst:
    history: str
    text: str


@dataclasses.dataclass(frozen=True)
class Metric:
    key: str
    title: str
    unit: str
    explanation: str
    allocators: list[str]
    rows: list[Row]
    # Of ours.
    worst: Worst | None


@dataclasses.dataclass(frozen=True)
class _Kind:
    """What is measured, and how it is shown."""

    key: str
    title: str
    unit: str
    explanation: str
    # None: this play has no such figure.
    of: Callable[[Play], float | None]
    show: Callable[[float], str]
    more_is_better: bool = False
    # Where bars begin, and the least that a full one stands for.
    floor: float = 0.0
    full: float = 0.0


def format_percent(part: float | None) -> str:
    return NOTHING if part is None else f"{100 * part:.1f}\N{NARROW NO-BREAK SPACE}%"


def _capacity(play: Play) -> float | None:
    return play.min_capacity_bytes / max(1, play.peak_live_bytes) if play.min_capacity_bytes else None


def _first_time(play: Play) -> float | None:
    if play.driver_ns_to_peak is None or not play.completed:
        return None
    return play.driver_ns_to_peak / 1e6 / (max(1, play.peak_reserved_bytes) / _GIB)


def _steady(play: Play) -> float | None:
    if play.steady_driver_ns is None or not play.steady_allocations:
        return None
    return play.steady_driver_ns / 1e3 / play.steady_allocations


_KINDS = (
    _Kind(
        "utilisation",
        "Utilisation",
        "",
        "The most that was live at a time, of the most that the allocator held. More is better.",
        lambda play: play.utilisation,
        format_percent,
        more_is_better=True,
        full=1.0,
    ),
    _Kind(
        "capacity",
        "Smallest GPU",
        "\N{MULTIPLICATION SIGN} peak live",
        "The smallest capacity in which the history completes, over the most that was live at a time. Less is better; "
        "bars show what is above 1.",
        _capacity,
        lambda ratio: f"{ratio:.4f}",
        floor=1.0,
    ),
    _Kind(
        "first",
        "Driver time to the peak",
        "ms per GiB",
        "Milliseconds for each GiB held, by the latency model: what it costs to get from nothing to the most that is "
        "held. Less is better.",
        _first_time,
        lambda ms: f"{ms:,.2f}",
    ),
    _Kind(
        "steady",
        "Driver time when warm",
        "ms per 1,000 allocations",
        "Milliseconds for 1,000 allocations after the warm-up, by the latency model. Less is better.",
        _steady,
        lambda ms: f"{ms:,.3f}",
    ),
    _Kind(
        "pair",
        "CPU time",
        "ns per allocation and free",
        "Nanoseconds of the host for an allocation and its free on a warm cache, taken on a shared machine: ratios "
        "between allocators of one run hold, single figures do not. Less is better.",
        lambda play: play.ns_per_pair,
        lambda ns: f"{ns:,.0f}",
    ),
)


def metrics(replays: Replays) -> list[Metric]:
    """Those that there are figures of."""
    return [metric for metric in (_metric(replays, kind) for kind in _KINDS) if metric.rows]


def _metric(replays: Replays, kind: _Kind) -> Metric:
    found = {(play.history, play.allocator): kind.of(play) for play in replays.plays}
    known = {pair: value for pair, value in found.items() if value is not None}
    allocators = [name for name in replays.allocators if any(allocator == name for _, allocator in known)]
    most = max([kind.full, *known.values()])
    rows = []
    for history in replays.inputs:
        values = {name: known.get((history.name, name)) for name in allocators}
        if any(value is not None for value in values.values()):
            rows.append(Row(history.name, history.kind == "generated", _cells(kind, values, most)))
    ours = {history: value for (history, allocator), value in known.items() if allocator == OURS}
    worst = None
    if ours:
        history = (min if kind.more_is_better else max)(ours, key=ours.__getitem__)
        worst = Worst(history, kind.show(ours[history]))
    return Metric(kind.key, kind.title, kind.unit, kind.explanation, allocators, rows, worst)


def _cells(kind: _Kind, values: dict[str, float | None], most: float) -> list[Cell]:
    known = [value for value in values.values() if value is not None]
    best = kind.show(max(known) if kind.more_is_better else min(known))
    cells = []
    for name, value in values.items():
        if value is None:
            cells.append(Cell(name, NOTHING, 0.0, False))
            continue
        length = (value - kind.floor) / (most - kind.floor) if most > kind.floor else 0.0
        cells.append(Cell(name, kind.show(value), round(100 * min(1.0, max(0.0, length)), 1), kind.show(value) == best))
    return cells

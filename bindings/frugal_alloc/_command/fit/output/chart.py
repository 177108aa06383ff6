"""Where the parts of a verdict's pictures lie. The template draws them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from ...._report.pages import geometry
from ...._report.pages.geometry import Tick
from ..verdict import COMPONENTS, CONTEXT, UNNAMED, Moment, RankPeaks, Sample

_MOST_SAMPLES = 400
_MOST_STEP_LABELS = 6
# How much room is left is part of the answer.
_LIMIT_IN_SIGHT = 3.0
# What stays the same lies at the bottom.
_FROM_BOTTOM = (CONTEXT, *(name for name in COMPONENTS if name != CONTEXT))


@dataclasses.dataclass(frozen=True)
class Layer:
    """A component's part of the picture over time."""

    component: str
    path: str
    most_bytes: int


@dataclasses.dataclass(frozen=True)
class Band:
    """Samples in a row of one phase and step, in percent of the picture's width."""

    phase: str
    step: int
    start: float
    width: float
    most_bytes: int


@dataclasses.dataclass(frozen=True)
class MemoryPicture:
    """A GPU's memory over time, the components on top of each other, the first at the bottom."""

    layers: tuple[Layer, ...]
    bands: tuple[Band, ...]
    limit_y: float | None  # None: far above what is drawn
    bytes_ticks: tuple[Tick, ...]
    step_ticks: tuple[Tick, ...]


@dataclasses.dataclass(frozen=True)
class Piece:
    """A component's part of a bar, in percent of the longest one's width."""

    component: str
    start: float
    width: float
    bytes: int


@dataclasses.dataclass(frozen=True)
class Bar:
    """What was in use when a phase needed most."""

    moment: Moment
    pieces: tuple[Piece, ...]
    is_peak: bool


def colour(component: str) -> int:
    """A component's number; one that we do not know looks like what has no name."""
    return COMPONENTS.index(component if component in COMPONENTS else UNNAMED)


def memory_picture(rank: RankPeaks, limit: int) -> MemoryPicture | None:
    """None: there is nothing to draw a line through."""
    # Of those in a row the one with most in use stands for all.
    samples = geometry.thinned(rank.series, _MOST_SAMPLES, lambda group: max(group, key=lambda one: one.used_bytes))
    if len(samples) < 2:
        return None
    most = max(1, rank.peak.used_bytes, *(sample.used_bytes for sample in samples))
    ticks, top = geometry.bytes_ticks(most, limit, _LIMIT_IN_SIGHT)
    return MemoryPicture(
        layers=tuple(_layers(samples, top)),
        bands=tuple(_bands(samples)),
        limit_y=geometry.limit_y(limit, top),
        bytes_ticks=tuple(ticks),
        step_ticks=tuple(_step_ticks(samples)),
    )


def _in_order(components: Mapping[str, int]) -> list[str]:
    """From the bottom up."""
    return [*_FROM_BOTTOM, *sorted(set(components) - set(_FROM_BOTTOM))]


def _layers(samples: Sequence[Sample], top: float) -> list[Layer]:
    floor = [0] * len(samples)
    found: list[Layer] = []
    for component in _in_order({name: 0 for sample in samples for name in sample.components}):
        sizes = [max(sample.components.get(component, 0), 0) for sample in samples]
        if not any(sizes):
            continue
        ceiling = [low + size for low, size in zip(floor, sizes, strict=True)]
        found.append(Layer(component, geometry.area(floor, ceiling, top), max(sizes)))
        floor = ceiling
    return found


def _bands(samples: Sequence[Sample]) -> list[Band]:
    found, start = [], 0
    for (phase, step), group in itertools.groupby(samples, key=lambda sample: (sample.phase, sample.step)):
        sizes = [sample.used_bytes for sample in group]
        width = 100 * len(sizes) / len(samples)
        found.append(Band(phase, step, 100 * start / len(samples), width, max(sizes)))
        start += len(sizes)
    return found


def _step_ticks(samples: Sequence[Sample]) -> list[Tick]:
    starts = [n for n, sample in enumerate(samples) if n == 0 or sample.step != samples[n - 1].step]
    every = math.ceil(len(starts) / _MOST_STEP_LABELS)
    return [Tick(100 * n / len(samples), str(samples[n].step)) for n in starts[::every]]


def bars(moments: Sequence[Moment], peak: int, limit: int) -> tuple[list[Bar], float | None]:
    """One for each phase, and where the limit lies in percent; None: far to the right. `peak`: the number of the
    highest."""
    most = max((moment.used_bytes for moment in moments), default=0)
    whole = max(geometry.highest_in_sight(most, limit, _LIMIT_IN_SIGHT), 1)
    found = [Bar(moment, tuple(_pieces(moment, whole)), number == peak) for number, moment in enumerate(moments)]
    return found, 100 * limit / whole if 0 < limit <= whole else None


def _pieces(moment: Moment, whole: int) -> list[Piece]:
    found, start = [], 0
    for component in _in_order(moment.components):
        size = max(moment.components.get(component, 0), 0)
        if size:
            found.append(Piece(component, 100 * start / whole, 100 * size / whole, size))
            start += size
    return found

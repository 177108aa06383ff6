"""A verdict as one HTML file, which refers to nothing outside of itself. Importing this module needs jinja2.

Whatever comes from the program is text to it: the template escapes all of it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from ..._common.messages import format_bytes
from ..._report import pages
from ..._report.pages import geometry
from ..._report.pages.geometry import Tick
from . import wording
from .verdict import COMPONENTS, CONTEXT, PHASES, UNNAMED, RankPeaks, Sample, Tried, Verdict

# The JSON form has all.
_MOST_DRAWN = 4
_MOST_RANKS = 256
_MOST_LINES = 60
_MOST_SENTENCES = 50
_MOST_SAMPLES = 400
_MOST_STRETCHES = 200
_MOST_STEP_LABELS = 6
# How much room is left is part of the answer.
_LIMIT_IN_SIGHT = 3.0
_MOODS = {True: "good", False: "bad", None: "warning"}
# What stays the same lies at the bottom.
_FROM_BOTTOM = (CONTEXT, *(name for name in COMPONENTS if name != CONTEXT))


def render(verdicts: Sequence[Verdict]) -> str:
    """
    Args:
        verdicts: Of one program, each with another allocator; all is told of the first.
    """
    cleaned = [wording.of_terminal_and_page(verdict) for verdict in verdicts]
    verdict = cleaned[0]
    groups = wording.rank_groups(verdict)
    drawn = [_drawn(verdict, name, rank) for name, rank in groups[:_MOST_DRAWN]]
    for number, section in enumerate(drawn):
        # Keeps the ids of several apart.
        section["prefix"] = f"g{number}-" if len(groups) > 1 else ""
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            verdict=verdict,
            worst=verdict.worst,
            mood=_MOODS[verdict.is_good],
            headline=wording.headline(verdict),
            allocators=wording.allocator_rows(cleaned),
            tried=[(tried.value, wording.FITS[tried.fits], _outcome(tried)) for tried in verdict.tried],
            ranks=[
                (name, format_bytes(rank.peak.used_bytes), wording.moment(rank.peak, verdict.unit))
                for name, rank in groups[:_MOST_RANKS]
            ],
            drawn=drawn,
            reservations=wording.reservations(verdict),
            most_sentences=_MOST_SENTENCES,
            when=functools.partial(wording.moment, unit=verdict.unit),
            facts=wording.facts(verdict),
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {
        "place": wording.place,
        "gain": wording.gain,
        "allocator": lambda name: wording.ALLOCATORS.get(name, name),
        # One that we do not know looks like what has no name.
        "colour": lambda component: COMPONENTS.index(component if component in COMPONENTS else UNNAMED),
        "phase_number": lambda phase: PHASES.index(phase) if phase in PHASES else len(PHASES) - 1,
    }
    return environment


def _outcome(tried: Tried) -> str:
    if tried.fits is None:
        return wording.why_neither(tried)
    return format_bytes(tried.used_bytes) if tried.fits else "ran out"


def _drawn(verdict: Verdict, name: str, rank: RankPeaks) -> dict[str, Any]:
    """What is shown of ranks that took the same."""
    limit = verdict.gpu.memory_bytes
    most = max((moment.used_bytes for moment in rank.phases), default=0)
    whole = max(geometry.highest_in_sight(most, limit, _LIMIT_IN_SIGHT), 1)
    picture = memory_picture(rank, limit)
    return {
        "title": f", {name}" if len(verdict.ranks) > 1 else "",
        "rank": rank,
        "components": wording.components(rank),
        "rows": wording.phase_rows(rank),
        # Of the bars: the bytes that are as long as the page is wide, and where the GPU's memory is on them, if it is.
        "whole": whole,
        "limit_percent": 100 * limit / whole if 0 < limit <= whole else None,
        "picture": picture,
        "stretches": [
            (str(band.step), band.phase, format_bytes(band.most_bytes))
            for band in (picture.bands[:_MOST_STRETCHES] if picture is not None else ())
        ],
        "lines": rank.lines[:_MOST_LINES],
        "left_out": rank.lines[_MOST_LINES:],
    }


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

    layers: Sequence[Layer]
    bands: Sequence[Band]
    limit_y: float | None  # None: far above what is drawn
    bytes_ticks: Sequence[Tick]
    step_ticks: Sequence[Tick]


def memory_picture(rank: RankPeaks, limit: int) -> MemoryPicture | None:
    """None: there is nothing to draw a line through."""
    # Of those in a row the one with most in use stands for all.
    samples = geometry.thinned(
        rank.series, _MOST_SAMPLES, lambda group: max(group, key=lambda sample: sample.used_bytes)
    )
    if len(samples) < 2:
        return None
    most = max(1, rank.peak.used_bytes, *(sample.used_bytes for sample in samples))
    ticks, top = geometry.bytes_ticks(most, limit, _LIMIT_IN_SIGHT)
    starts = [n for n, sample in enumerate(samples) if n == 0 or sample.step != samples[n - 1].step]
    labelled = starts[:: math.ceil(len(starts) / _MOST_STEP_LABELS)]
    return MemoryPicture(
        layers=_layers(samples, top),
        bands=_bands(samples),
        limit_y=geometry.limit_y(limit, top),
        bytes_ticks=ticks,
        step_ticks=[Tick(100 * n / len(samples), str(samples[n].step)) for n in labelled],
    )


def _layers(samples: Sequence[Sample], top: float) -> list[Layer]:
    floor = [0] * len(samples)
    layers: list[Layer] = []
    unknown = {name for sample in samples for name in sample.components} - set(_FROM_BOTTOM)
    for component in (*_FROM_BOTTOM, *sorted(unknown)):
        sizes = [max(sample.components.get(component, 0), 0) for sample in samples]
        if not any(sizes):
            continue
        ceiling = [low + size for low, size in zip(floor, sizes, strict=True)]
        layers.append(Layer(component, geometry.area(floor, ceiling, top), max(sizes)))
        floor = ceiling
    return layers


def _bands(samples: Sequence[Sample]) -> list[Band]:
    bands, start = [], 0
    for (phase, step), group in itertools.groupby(samples, key=lambda sample: (sample.phase, sample.step)):
        sizes = [sample.used_bytes for sample in group]
        width = 100 * len(sizes) / len(samples)
        bands.append(Band(phase, step, 100 * start / len(samples), width, max(sizes)))
        start += len(sizes)
    return bands

"""A verdict as one HTML file, which refers to nothing outside of itself. Importing this module needs jinja2.

Whatever comes from the program is text to it: the templates escape all of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import jinja2

from ...._report import pages
from ..verdict import PHASES, WASTE, HeldByLine, Verdict
from . import chart, wording
from .chart import Bar, MemoryPicture
from .peaks_table import PeaksTable, RankGroup, rank_groups

# The JSON form has all.
_MOST_DRAWN = 4
_MOST_RANKS = 256
_MOST_LINES = 60
_MOST_SENTENCES = 50
_MOODS = {True: "good", False: "bad", None: "warning"}


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What is shown of ranks that took the same. `prefix` keeps the ids of several apart."""

    prefix: str
    title: str
    group: RankGroup
    table: PeaksTable
    bars: Sequence[Bar]
    limit_percent: float | None
    over_time: MemoryPicture | None
    lines: Sequence[HeldByLine]
    left_out: Sequence[HeldByLine]


def render(verdicts: Sequence[Verdict]) -> str:
    """
    Args:
        verdicts: Of one program, each with another allocator; all is told of the first.
    """
    cleaned = [wording.of_terminal_and_page(verdict) for verdict in verdicts]
    verdict = cleaned[0]
    groups = rank_groups(verdict)
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            verdict=verdict,
            verdicts=cleaned,
            worst=verdict.worst,
            mood=_MOODS[verdict.fits],
            headline=wording.headline(verdict),
            drawn=[_drawn(verdict, group, number, len(groups)) for number, group in enumerate(groups[:_MOST_DRAWN])],
            groups=groups[:_MOST_RANKS],
            guesses=verdict.guesses[:_MOST_SENTENCES],
            not_modelled=verdict.not_modelled[:_MOST_SENTENCES],
            facts=wording.facts(verdict),
            waste=WASTE,
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {
        "place": wording.place,
        "when": wording.moment,
        "gain": wording.gain,
        "why_neither": wording.why_neither,
        "colour": chart.colour,
        "phase_number": lambda phase: PHASES.index(phase) if phase in PHASES else len(PHASES) - 1,
        "allocator": lambda name: wording.ALLOCATORS.get(name, name),
    }
    return environment


def _drawn(verdict: Verdict, group: RankGroup, number: int, count: int) -> Drawn:
    rank = group.first
    table = PeaksTable.of(rank)
    limit = verdict.gpu.memory_bytes
    bars, limit_percent = chart.bars(table.moments, table.peak, limit)
    return Drawn(
        prefix=f"g{number}-" if count > 1 else "",
        title=group.name if len(verdict.ranks) > 1 else "",
        group=group,
        table=table,
        bars=bars,
        limit_percent=limit_percent,
        over_time=chart.memory_picture(rank, limit),
        lines=rank.lines[:_MOST_LINES],
        left_out=rank.lines[_MOST_LINES:],
    )

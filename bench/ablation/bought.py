"""What each choice bought: how figures change with another one."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable

from .cases import Case
from .plays import AMPLE, Figures, Play

# Where an alternative is played.
RATIOS = (AMPLE, 1.25, 1.05, 1.02)


@dataclasses.dataclass(frozen=True)
class Difference:
    """Between two sets of options, over the histories in which both have the figure; None: there is none."""

    # Of driver time: the geometric mean of one over the other.
    ample: float | None
    scarce: float | None
    # Means of differences: memory in use at 4x, the smallest GPU over live memory, ms for 1,000 allocations at 1.05x.
    in_use: float | None
    smallest: float | None
    warm: float | None
    # Plays that ran out of memory.
    failures: int


def difference(cases: Iterable[Case], others: Iterable[Figures]) -> Difference:
    """From the cases' own figures to `others`, which are of the same histories."""
    pairs = [(case, case.ours, other) for case, other in zip(cases, others, strict=True)]

    def driver_time(ratio: float) -> float | None:
        both = [(own.plays[ratio], other.plays[ratio]) for _, own, other in pairs]
        ratios = [other.driver_ns / own.driver_ns for own, other in both if own.completed and other.completed]
        return statistics.geometric_mean(ratios) if ratios else None

    def mean(figure: Callable[[Case, Figures], float | None]) -> float | None:
        both = [(figure(case, own), figure(case, other)) for case, own, other in pairs]
        found = [other - own for own, other in both if own is not None and other is not None]
        return statistics.fmean(found) if found else None

    return Difference(
        ample=driver_time(AMPLE),
        scarce=driver_time(1.25),
        in_use=mean(lambda case, figures: _in_use(case, figures.plays[AMPLE])),
        smallest=mean(
            lambda case, figures: figures.smallest_bytes and figures.smallest_bytes / case.live_bytes,
        ),
        warm=mean(lambda _, figures: _warm(figures.plays[1.05])),
        failures=sum(_failures(other) - _failures(own) for _, own, other in pairs),
    )


@dataclasses.dataclass(frozen=True)
class Level:
    """The same figures of one set of options; driver time over expandable segments'."""

    ample: float | None
    scarce: float | None
    in_use: float | None
    smallest: float | None
    warm: float | None
    failures: int


def level(cases: list[Case]) -> Level:
    def over(figures: Iterable[float | None], average: Callable[[list[float]], float]) -> float | None:
        known = [figure for figure in figures if figure is not None]
        return average(known) if known else None

    smallest = (case.ours.smallest_bytes and case.ours.smallest_bytes / case.live_bytes for case in cases)
    return Level(
        ample=over((case.of_expandable(AMPLE) for case in cases), statistics.geometric_mean),
        scarce=over((case.of_expandable(1.25) for case in cases), statistics.geometric_mean),
        in_use=over((case.in_use(AMPLE) for case in cases), statistics.fmean),
        smallest=over(smallest, statistics.fmean),
        warm=over((case.warm(1.05) for case in cases), statistics.fmean),
        failures=sum(_failures(case.ours) for case in cases),
    )


def _in_use(case: Case, play: Play) -> float | None:
    return case.live_bytes / play.held_bytes if play.completed else None


def _warm(play: Play) -> float | None:
    return None if play.steady is None else play.steady.driver_ms_per_1000


def _failures(figures: Figures) -> int:
    return sum(not figures.plays[ratio].completed for ratio in RATIOS)

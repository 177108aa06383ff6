"""What the policy must reach, row by row, and which histories fall short of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from ..suite import AMPLE, GRANTED_BYTES
from .figures import EXPANDABLE, NATIVE, Case

_MIB = 1 << 20
# Closer than that two figures are the same.
TIE = 0.0005
_FROM_BOUND = 0.005


@dataclasses.dataclass(frozen=True)
class Demand:
    """`values` are by history; None: it did not complete, which falls short."""

    what: str
    limit: float
    values: dict[str, float | None]
    at_least: bool = False

    def short(self) -> list[str]:
        """The histories that fall short, worst first."""
        short = [name for name, value in self.values.items() if not self._reaches(value)]
        return sorted(short, key=lambda name: self._badness(self.values[name]), reverse=True)

    def worst(self) -> float | None:
        return max(self.values.values(), key=self._badness)

    def _reaches(self, value: float | None) -> bool:
        limit = -self.limit if self.at_least else self.limit
        return value is not None and self._badness(value) <= limit + TIE

    def _badness(self, value: float | None) -> float:
        if value is None:
            return float("inf")
        return -value if self.at_least else value


def demands(cases: list[Case]) -> list[Demand]:
    """All for which there are histories."""
    recorded = [case for case in cases if case.workload.is_recorded]
    generated = [case for case in cases if not case.workload.is_recorded]
    loops = [case for case in cases if case.workload.history.turn_ends]
    single = [case for case in cases if case.workload.history.stream_count == 1]
    several = [case for case in cases if case.workload.history.stream_count > 1]
    # Memory first: what a row above would cost is no reason against it.
    rows = [
        _demand("smallest GPU beyond the smaller of expandable's and native's / live", 0.002, cases, _beyond_rivals),
        _demand("smallest GPU / live, recorded", 1.008, recorded, _smallest),
        _demand("the same, generated", 1.018, generated, _smallest),
        _demand("held at 4x beyond its allowance / live", 0.002, cases, _held_beyond),
        _demand("in use at 1.25x, recorded", 0.99, recorded, lambda case: case.ours.in_use(1.25), at_least=True),
        _demand("driver time at 4x / expandable's, recorded", 4, recorded, _of_expandable),
        _demand("the same of generated ones", 5, generated, _of_expandable),
        _demand("driver time up to the peak at 4x, ms/GiB", 20, cases, lambda case: case.ours.peak_ms_per_gib(AMPLE)),
        _demand("warm driver time at 4x beyond expandable's, ms for 1,000 allocations", 0.1, cases, _warm_beyond),
        _demand("driver calls in fixed loops at 4x", 0, loops, _loop_calls),
        _demand("event calls in the steady state of one stream at 4x", 0, single, _event_calls),
        _demand("stream waits at 1.25x", 0, several, lambda case: case.ours.plays[1.25].stream_waits),
        _no_host_waits(cases, 1.25),
        _no_host_waits(cases, 1.02),
        _no_host_waits(cases, 1.005),
        _demand("worst request beyond 40 ms/GiB at any ratio, ms", 1, cases, _worst_excess),
    ]
    return [row for row in rows if row.values]


def _demand(
    what: str, limit: float, cases: Iterable[Case], figure: Callable[[Case], float | None], *, at_least: bool = False
) -> Demand:
    return Demand(what, limit, {case.name: figure(case) for case in cases}, at_least)


def _no_host_waits(cases: list[Case], ratio: float) -> Demand:
    completed = [case for case in cases if case.ours.plays[ratio].completed]
    what = f"host waits at {ratio:g}x, of what completes"
    return _demand(what, 0, completed, lambda case: case.ours.plays[ratio].host_waits)


def _held_beyond(case: Case) -> float | None:
    """The allowance: what expandable segments hold, or 1.003 x live + 8 MiB."""
    play = case.ours.plays[AMPLE]
    allowance = max(case.expandable.plays[AMPLE].held_bytes, 1.003 * case.workload.live_bytes + 8 * _MIB)
    return (play.held_bytes - allowance) / case.workload.live_bytes if play.completed else None


def _warm_beyond(case: Case) -> float | None:
    ours = case.ours.warm_ms(AMPLE)
    return None if ours is None else ours - (case.expandable.warm_ms(AMPLE) or 0)


def _of_expandable(case: Case) -> float | None:
    ours, theirs = case.ours.driver_ms(AMPLE), case.expandable.driver_ms(AMPLE)
    return None if ours is None or theirs is None else ours / theirs


def _loop_calls(case: Case) -> int | None:
    return case.ours.steady and case.ours.steady.calls


def _event_calls(case: Case) -> int | None:
    return case.ours.steady and case.ours.steady.event_calls


def _worst_excess(case: Case) -> float:
    return max(play.worst_excess_ns or 0 for play in case.ours.plays.values()) / 1e6


def _smallest(case: Case) -> float | None:
    """1 where it is within four handles of live, or as near the bound as is asked for."""
    smallest = case.ours.smallest_bytes
    if smallest is None:
        return None
    near = smallest - case.bound_bytes <= _FROM_BOUND * case.workload.live_bytes
    return 1 if near or smallest <= case.workload.live_bytes + GRANTED_BYTES else case.ours.smallest


def _beyond_rivals(case: Case) -> float | None:
    rivals = [case.figures[rival].smallest for rival in (EXPANDABLE, NATIVE)]
    known = [smallest for smallest in rivals if smallest is not None]
    return None if case.ours.smallest is None or not known else case.ours.smallest - min(known)

"""What the policy must reach, row by row, and which histories fall short of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from ..replay_suite import GRANTED_HANDLES, HANDLE_BYTES
from .cases import Case
from .plays import AMPLE

_MIB = 1 << 20
# Closer than that two figures are the same.
TIE = 0.0005
_GRANTED_BYTES = GRANTED_HANDLES * HANDLE_BYTES
_FROM_BOUND = 0.005


@dataclasses.dataclass(frozen=True)
class Bar:
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
        return value is not None and self._badness(value) <= (-self.limit if self.at_least else self.limit) + TIE

    def _badness(self, value: float | None) -> float:
        if value is None:
            return float("inf")
        return -value if self.at_least else value


def bars(cases: list[Case]) -> list[Bar]:
    """All for which there are histories."""
    recorded = [case for case in cases if case.is_recorded]
    generated = [case for case in cases if not case.is_recorded]
    loops = [case for case in cases if case.play.history.turn_ends]
    several = [case for case in cases if case.play.history.stream_count > 1]
    tight = [case for case in cases if case.ours.plays[1.02].completed]
    # Memory first: what a row above would cost is no reason against it.
    rows = [
        _bar("smallest GPU beyond the smaller of expandable's and native's / live", 0.002, cases, _beyond_rivals),
        _bar("smallest GPU / live, recorded", 1.008, recorded, _smallest),
        _bar("the same, generated", 1.018, generated, _smallest),
        _bar("held at 4x beyond its allowance / live", 0.002, cases, _held_beyond),
        _bar("in use at 1.25x, recorded", 0.99, recorded, lambda case: case.in_use(1.25), at_least=True),
        _bar("driver time at 4x / expandable's, recorded", 4, recorded, lambda case: case.of_expandable(AMPLE)),
        _bar("the same of generated ones", 5, generated, lambda case: case.of_expandable(AMPLE)),
        _bar("warm driver time at 4x beyond expandable's, ms for 1,000 allocations", 0.1, cases, _warm_beyond),
        _bar("driver calls in fixed loops at 4x", 0, loops, _loop_calls),
        _bar("stream waits at 1.25x", 0, several, lambda case: case.ours.plays[1.25].stream_waits),
        _bar("host waits at 1.02x, of what completes", 0, tight, lambda case: case.ours.plays[1.02].host_waits),
        _bar("worst request beyond 40 ms/GiB at any ratio, ms", 1, cases, _worst_excess),
    ]
    return [row for row in rows if row.values]


def _bar(
    what: str, limit: float, cases: Iterable[Case], figure: Callable[[Case], float | None], *, at_least: bool = False
) -> Bar:
    return Bar(what, limit, {case.name: figure(case) for case in cases}, at_least)


def _held_beyond(case: Case) -> float | None:
    """The allowance: what expandable segments hold, or 1.003 x live + 8 MiB."""
    found = case.ours.plays[AMPLE]
    allowance = max(case.expandable.plays[AMPLE].held_bytes, 1.003 * case.live_bytes + 8 * _MIB)
    return (found.held_bytes - allowance) / case.live_bytes if found.completed else None


def _warm_beyond(case: Case) -> float | None:
    ours = case.warm(AMPLE)
    return None if ours is None else ours - (case.expandable_warm or 0)


def _loop_calls(case: Case) -> int | None:
    steady = case.ours.plays[AMPLE].steady
    return None if steady is None else steady.calls


def _worst_excess(case: Case) -> float:
    return max(play.worst_excess_ns for play in case.ours.plays.values()) / 1e6


def _smallest(case: Case) -> float | None:
    """1 where it is within four handles of live, or as near the bound as is asked for."""
    smallest = case.ours.smallest_bytes
    if smallest is None:
        return None
    near = case.bound_bytes is not None and smallest - case.bound_bytes <= _FROM_BOUND * case.live_bytes
    return 1 if near or smallest <= case.live_bytes + _GRANTED_BYTES else smallest / case.live_bytes


def _beyond_rivals(case: Case) -> float | None:
    rivals = [one.smallest_bytes for one in (case.expandable, case.native) if one.smallest_bytes is not None]
    if case.ours.smallest_bytes is None or not rivals:
        return None
    return (case.ours.smallest_bytes - min(rivals)) / case.live_bytes

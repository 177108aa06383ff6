"""What plays of one history came to: ours, its rivals', and what other options would have made of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..suite import AMPLE, Workload

# Capacities over the most live memory. They are what the driver's reserve leaves, so that none is kept for it here.
RATIOS = (AMPLE, 1.25, 1.05, 1.02, 1.005)
# How exactly the smallest capacity is found, as a part of the most live memory.
CAPACITY_TOLERANCE = 0.0005

OURS, EXPANDABLE, NATIVE = "ours", "expandable", "native"

_GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Steady:
    """What the steady state cost, as replays.SteadyState."""

    driver_ns: int
    allocations: int
    # Counted of ours alone: those that change what is mapped where, or take memory from the device or give it back.
    calls: int | None = None
    # Likewise: records and queries of events.
    event_calls: int | None = None


@dataclasses.dataclass(frozen=True)
class Play:
    """One history in one capacity. All but `steady` is of its first play, up to where that ended."""

    # None: it completed; else the event for which there was no memory.
    failed_at: int | None
    held_bytes: int
    driver_ns: int
    # Up to the request with which the most was held for the first time.
    driver_ns_to_peak: int
    # None: that far it did not come.
    steady: Steady | None
    # From here on: counted of ours alone.
    creates: int | None = None
    host_waits: int | None = None
    stream_waits: int | None = None
    # The most of the driver's time that one request took beyond 40 ms for each GiB that it asked for.
    worst_excess_ns: int | None = None

    @property
    def completed(self) -> bool:
        return self.failed_at is None

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> Play:
        steady = fields["steady"]
        return Play(**fields | {"steady": steady and Steady(**steady)})


@dataclasses.dataclass(frozen=True)
class Figures:
    """One history with one allocator. A figure of a play is None where that did not complete."""

    live_bytes: int
    # By ratio, of those that were asked for.
    plays: dict[float, Play]
    # None where it does not complete in ample memory.
    smallest_bytes: int | None

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> Figures:
        """The inverse of dataclasses.asdict(), also by way of JSON. Raises ValueError, TypeError or KeyError."""
        plays = {float(ratio): Play.from_fields(play) for ratio, play in fields["plays"].items()}
        return Figures(**fields | {"plays": plays})

    @property
    def smallest(self) -> float | None:
        """The smallest capacity over the most live memory."""
        return None if self.smallest_bytes is None else self.smallest_bytes / self.live_bytes

    @property
    def steady(self) -> Steady | None:
        """In ample memory."""
        return self.plays[AMPLE].steady

    def in_use(self, ratio: float) -> float | None:
        """The most live memory over the most that was held."""
        play = self.plays[ratio]
        return self.live_bytes / play.held_bytes if play.completed else None

    def driver_ms(self, ratio: float) -> float | None:
        play = self.plays[ratio]
        return play.driver_ns / 1e6 if play.completed else None

    def peak_ms_per_gib(self, ratio: float) -> float | None:
        """Driver time up to the peak, in ms for each GiB that was held there."""
        play = self.plays[ratio]
        return play.driver_ns_to_peak / 1e6 / (play.held_bytes / _GIB) if play.completed else None

    def warm_ms(self, ratio: float) -> float | None:
        """Driver time in ms for 1,000 allocations of the steady state."""
        steady = self.plays[ratio].steady
        return None if steady is None else steady.driver_ns / 1e3 / steady.allocations


@dataclasses.dataclass(frozen=True)
class Case:
    """One history."""

    workload: Workload
    # The least memory in which any placement could complete.
    bound_bytes: int
    # Of OURS, EXPANDABLE and NATIVE, the last in ample memory alone; and of ours with alternatives, by their titles.
    figures: dict[str, Figures]

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def ours(self) -> Figures:
        return self.figures[OURS]

    @property
    def expandable(self) -> Figures:
        return self.figures[EXPANDABLE]

"""What is known of one history: ours, its rivals', and the bound."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util

from frugal_alloc._replay.history import History

from .. import replay_suite
from .plays import AMPLE, Figures
from .rivals import Rival


@dataclasses.dataclass(frozen=True)
class Case:
    play: replay_suite.Play
    ours: Figures
    expandable: Rival
    native: Rival
    # The least memory in which any placement could complete; None: not known.
    bound_bytes: int | None

    @property
    def name(self) -> str:
        return self.play.input.name

    @property
    def is_recorded(self) -> bool:
        return self.play.input.kind == "recorded"

    @property
    def live_bytes(self) -> int:
        return self.play.history.peak_live_bytes

    def in_use(self, ratio: float) -> float | None:
        """The most live memory over the most that was held; None where it did not complete."""
        found = self.ours.plays[ratio]
        return self.live_bytes / found.held_bytes if found.completed else None

    def of_expandable(self, ratio: float) -> float | None:
        """Driver time over that of expandable segments; None where one of them did not complete."""
        ours, theirs = self.ours.plays[ratio], self.expandable.plays[ratio]
        return ours.driver_ns / theirs.driver_ns if ours.completed and theirs.completed else None

    def warm(self, ratio: float) -> float | None:
        """Driver time in ms for 1,000 allocations of the steady state; None where it did not come there."""
        steady = self.ours.plays[ratio].steady
        return None if steady is None else steady.driver_ms_per_1000

    @property
    def expandable_warm(self) -> float | None:
        return self.expandable.plays[AMPLE].steady_ms_per_1000


def bound_bytes(history: History) -> int | None:
    """None: nothing here can tell."""
    if importlib.util.find_spec("bench.offline_bound") is None:
        return None
    return importlib.import_module("bench.offline_bound").lower_bound_bytes(history)

"""Plays histories through the policy alone, without torch, with any of its options changed: //bench:ablate_program."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

from frugal_alloc._replay import replays
from frugal_alloc._replay.history import History

from .. import replay_suite

AMPLE = 4.0
# Capacities over the most live memory. They are what the driver's reserve leaves, so that none is kept for it here.
RATIOS = (AMPLE, 1.25, 1.05, 1.02, 1.005)
CAPACITY_TOLERANCE = 0.0005


class PlayError(Exception):
    """The program could not play; the message says why."""


@dataclasses.dataclass(frozen=True)
class Steady:
    """What the steady state cost, as _replay.SteadyState."""

    driver_ns: int
    # Of those that change what is mapped where, or take memory from the device or give it back.
    calls: int
    allocations: int

    @property
    def driver_ms_per_1000(self) -> float:
        return self.driver_ns / 1e3 / self.allocations


@dataclasses.dataclass(frozen=True)
class Play:
    """One history in one capacity. All but `steady` is of its first play, up to where that ended."""

    capacity_bytes: int
    # None: it completed; else the event for which there was no memory.
    failed_at: int | None
    held_bytes: int
    driver_ns: int
    # The most of the driver's time that one request took beyond 40 ms for each GiB that it asked for.
    worst_excess_ns: int
    creates: int
    maps: int
    host_waits: int
    stream_waits: int
    # None: that far it did not come.
    steady: Steady | None
    # Up to the request with which the most was held for the first time.
    driver_ns_to_peak: int = 0

    @property
    def completed(self) -> bool:
        return self.failed_at is None


@dataclasses.dataclass(frozen=True)
class Figures:
    """One history with one set of options."""

    # By ratio, of those that were asked for.
    plays: dict[float, Play]
    # None where it does not complete in ample memory.
    smallest_bytes: int | None


class Policy:
    """What the program plays. Any thread may use it."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def options(self) -> dict[str, int]:
        """All options with their values. Raises PlayError."""
        return json.loads(self._run("--options"))

    def measure(self, play: replay_suite.Play, changes: dict[str, int], ratios: tuple[float, ...]) -> Figures:
        """The history at these ratios, of which AMPLE is one, and the smallest capacity that it completes in.

        Raises:
            PlayError
        """
        plays = {ratio: self._play_at(play, ratio, changes) for ratio in ratios}
        ample = plays[AMPLE]
        if not ample.completed:
            return Figures(plays, None)
        smallest = replays.smallest_capacity(
            play.history.peak_live_bytes,
            ample.held_bytes,
            ample.capacity_bytes,
            lambda size: self.play(play.history, size, 0, changes, steady=False).completed,
            CAPACITY_TOLERANCE,
        )
        return Figures(plays, smallest)

    def _play_at(self, play: replay_suite.Play, ratio: float, changes: dict[str, int]) -> Play:
        capacity = replay_suite.capacity(play.history, ratio)
        return self.play(play.history, capacity, stream_lag(play, ratio), changes)

    def play(self, history: History, capacity: int, lag: int, changes: dict[str, int], steady: bool = True) -> Play:
        """One play, and a second one where the steady state begins there and is asked for. Raises PlayError."""
        begin = replays.steady_from(history) if steady else 0
        options = [f"{name}={value}" for name, value in changes.items()]
        try:
            output = self._run("/dev/stdin", str(capacity), str(lag), str(begin), *options, events=history.events)
        except PlayError as error:
            raise PlayError(" ".join([f"{history.name} in {capacity} bytes:", str(error), *options])) from None
        found = json.loads(output)
        found["steady"] = Steady(**found["steady"]) if found["steady"] else None
        return Play(capacity_bytes=capacity, **found)

    def _run(self, *arguments: str, events: bytes = b"") -> str:
        try:
            done = subprocess.run([self._program, *arguments], input=events, capture_output=True)
        except OSError as error:
            raise PlayError(f"{self._program} cannot be started: {error.strerror}") from None
        if done.returncode < 0:
            raise PlayError(f"the program was ended by signal {-done.returncode}")
        if done.returncode > 0:
            raise PlayError(done.stderr.decode().strip())
        return done.stdout.decode()


def stream_lag(play: replay_suite.Play, ratio: float) -> int:
    """In ample memory the streams have no work but what a recording says, as in //bench:replay_bench."""
    return 0 if ratio == AMPLE else play.input.stream_lag

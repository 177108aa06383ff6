"""Plays histories through the policy alone, without torch, with any of its options changed: //bench:policy_player."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from frugal_alloc._planning.replay import replays
from frugal_alloc._planning.replay.history import History

from ..suite import AMPLE, Workload
from .figures import CAPACITY_TOLERANCE, Figures, Play


class PlayError(Exception):
    """The program could not play; the message says why."""


class Policy:
    """What the program plays. Any thread may use it."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def options(self) -> dict[str, int]:
        """All options with their values. Raises PlayError."""
        return json.loads(self._run("--options"))

    def measure(self, workload: Workload, changes: dict[str, int], ratios: tuple[float, ...]) -> Figures:
        """The history at these ratios, of which AMPLE is one, and the smallest capacity that it completes in.

        Raises:
            PlayError
        """
        history = workload.history
        plays = {
            ratio: self.play(history, workload.capacity(ratio), workload.stream_lag(ratio), changes) for ratio in ratios
        }
        smallest = None
        if plays[AMPLE].completed:
            smallest = replays.smallest_capacity(
                workload.live_bytes,
                plays[AMPLE].held_bytes,
                workload.capacity(AMPLE),
                lambda size: self.play(history, size, 0, changes, steady=False).completed,
                CAPACITY_TOLERANCE,
            )
        return Figures(workload.live_bytes, plays, smallest)

    def play(self, history: History, capacity: int, lag: int, changes: dict[str, int], steady: bool = True) -> Play:
        """One play, and a second one where the steady state begins there and is asked for. Raises PlayError."""
        begin = replays.steady_from(history) if steady else 0
        options = [f"{name}={value}" for name, value in changes.items()]
        try:
            output = self._run("/dev/stdin", str(capacity), str(lag), str(begin), *options, events=history.events)
        except PlayError as error:
            raise PlayError(" ".join([f"{history.name} in {capacity} bytes:", str(error), *options])) from None
        return Play.from_fields(json.loads(output))

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

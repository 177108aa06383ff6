"""The figures of PyTorch's own allocators, kept: they change with torch, the history and the simulated GPU alone."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from frugal_alloc import _installation
from frugal_alloc._replay import replays
from frugal_alloc._simulation import simulated_gpu

from .. import output_file, replay_suite
from .plays import AMPLE, CAPACITY_TOLERANCE, RATIOS, stream_lag

KEPT = Path.home() / ".cache" / "frugal_alloc" / "rivals"
# Of native, only the smallest capacity is shown.
RATIOS_OF = {"expandable": RATIOS, "native": (AMPLE,)}
_FORMAT = 2


@dataclasses.dataclass(frozen=True)
class RivalPlay:
    completed: bool
    held_bytes: int
    driver_ns: int
    # None where it did not come to its steady state, or was not asked for it.
    steady_ms_per_1000: float | None
    driver_ns_to_peak: int = 0


@dataclasses.dataclass(frozen=True)
class Rival:
    """One history with one allocator, as plays.Figures."""

    plays: dict[float, RivalPlay]
    smallest_bytes: int | None


class Rivals:
    """Measures what is not kept yet. Any thread may use it."""

    def __init__(self, folder: Path) -> None:
        """Raises as _replay.Replayer() does."""
        self._folder = folder
        self.replayer = replays.Replayer()

    def measure(self, play: replay_suite.Play, allocator: str) -> Rival:
        """Raises as _replay.Replayer.measure() does."""
        path = self._folder / f"{_key(play, allocator)}.json"
        kept = _read(path)
        if kept is not None:
            return kept
        found = self._measure(play, allocator)
        # What cannot be kept is measured again the next time.
        with contextlib.suppress(OSError, output_file.NotWritable):
            path.parent.mkdir(parents=True, exist_ok=True)
            output_file.write(path, json.dumps(dataclasses.asdict(found)) + "\n")
        return found

    def _measure(self, play: replay_suite.Play, allocator: str) -> Rival:
        plays, smallest = {}, None
        for ratio in RATIOS_OF[allocator]:
            found = self.replayer.measure(
                play.history,
                allocator,
                replay_suite.capacity(play.history, ratio),
                find_minimum=ratio == AMPLE,
                passes=2 if ratio == AMPLE else 1,
                stream_lag=stream_lag(play, ratio),
                tolerance=CAPACITY_TOLERANCE,
            )
            steady = found.steady and found.steady.driver_ns / 1e3 / found.steady.allocations
            plays[ratio] = RivalPlay(
                found.completed, found.peak_reserved_bytes, found.driver_ns, steady, found.driver_ns_to_peak
            )
            smallest = smallest or found.min_capacity_bytes
        return Rival(plays, smallest)


def _key(play: replay_suite.Play, allocator: str) -> str:
    digest = hashlib.sha256(play.history.events)
    about: list[Any] = [_FORMAT, allocator, RATIOS_OF[allocator], CAPACITY_TOLERANCE, play.input.stream_lag]
    about += [replays.steady_from(play.history), play.history.initial_count, *surroundings()]
    digest.update(json.dumps(about).encode())
    return digest.hexdigest()


@functools.cache
def surroundings() -> tuple[str, ...]:
    """Torch's version, and the contents of what plays and of what is played on."""
    torch = _installation.find_cuda_torch()
    files = [_installation.find_library("replay", torch), *sorted(simulated_gpu.libraries().iterdir())]
    return torch.version, *(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file())


def _read(path: Path) -> Rival | None:
    """None: it is not kept, or what is there is damaged."""
    try:
        found = json.loads(path.read_text())
        plays = {float(ratio): RivalPlay(**one) for ratio, one in found["plays"].items()}
        return Rival(plays, found["smallest_bytes"])
    except (OSError, ValueError, TypeError, KeyError):
        return None

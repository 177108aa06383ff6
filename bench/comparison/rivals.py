"""The figures of PyTorch's own allocators, kept: they change with torch, the history and the simulated GPU alone."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import simulated_gpu
from frugal_alloc._common import installation, whole_files
from frugal_alloc._planning.replay import replays
from frugal_alloc._planning.replay.history import History

from ..suite import AMPLE, Workload
from .figures import CAPACITY_TOLERANCE, EXPANDABLE, NATIVE, RATIOS, Figures, Play, Steady

KEPT = Path.home() / ".cache" / "frugal_alloc" / "rivals"
# Of native, only the smallest capacity is shown.
RATIOS_OF = {EXPANDABLE: RATIOS, NATIVE: (AMPLE,)}
_FORMAT = 3

Kept = TypeVar("Kept")


class Rivals:
    """Measures what is not kept yet. Any thread may use it."""

    def __init__(self, folder: Path) -> None:
        """Raises as replays.Replayer() does."""
        self._folder = folder
        self.replayer = replays.Replayer()

    def measure(self, workload: Workload, allocator: str) -> Figures:
        """Raises as replays.Replayer.measure() does."""
        lags = [(ratio, workload.stream_lag(ratio)) for ratio in RATIOS_OF[allocator]]
        history = workload.history
        about = [_FORMAT, allocator, CAPACITY_TOLERANCE, *lags, replays.steady_from(history), history.initial_count]

        def measure() -> dict[str, Any]:
            return dataclasses.asdict(self._measure(workload, allocator))

        return kept(self._folder, about, history, measure, Figures.from_fields)

    def _measure(self, workload: Workload, allocator: str) -> Figures:
        measurements = {
            ratio: self.replayer.measure(
                workload.history,
                allocator,
                workload.capacity(ratio),
                find_minimum=ratio == AMPLE,
                passes=2 if ratio == AMPLE else 1,
                stream_lag=workload.stream_lag(ratio),
                tolerance=CAPACITY_TOLERANCE,
            )
            for ratio in RATIOS_OF[allocator]
        }
        plays = {ratio: _play(measurement) for ratio, measurement in measurements.items()}
        return Figures(workload.live_bytes, plays, measurements[AMPLE].min_capacity_bytes)


def kept(
    folder: Path, about: list[Any], history: History, measure: Callable[[], Any], read: Callable[[Any], Kept]
) -> Kept:
    """What was measured before of the history, with all that it is `about`, in these surroundings.

    What is not there, or damaged, is measured, and kept where it can be; `read` is given it as it was in JSON.
    """
    key = history.events + json.dumps([*about, *surroundings()]).encode()
    path = folder / f"{hashlib.sha256(key).hexdigest()}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return read(json.loads(path.read_text()))
    figures = measure()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_files.write(str(path), (json.dumps(figures) + "\n").encode())
    return read(figures)


@functools.cache
def surroundings() -> tuple[str, ...]:
    """Torch's version, and the contents of what plays and of what is played on."""
    torch = installation.find_cuda_torch()
    files = [installation.find_library("replay", torch), *sorted(simulated_gpu.libraries().iterdir())]
    return torch.version, *(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file())


def _play(measurement: replays.Measurement) -> Play:
    steady = measurement.steady
    return Play(
        failed_at=measurement.failed_at,
        held_bytes=measurement.peak_reserved_bytes,
        driver_ns=measurement.driver_ns,
        driver_ns_to_peak=measurement.driver_ns_to_peak,
        steady=steady and Steady(steady.driver_ns, steady.allocations),
    )

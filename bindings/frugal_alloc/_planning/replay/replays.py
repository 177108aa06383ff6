"""Plays recorded histories through allocators on the simulated GPU or a real one, and measures them side by side.

Every measurement is a process of its own (worker.py), so that no allocator sees what another has left, and a
crash costs one measurement. Of these, at most two run at a time, and on a real GPU one.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import simulated_gpu

from ..._common import installation
from .history import History

T = TypeVar("T")

DEFAULT_CAPACITY = 200 << 30
SIMULATED, REAL = "simulated", "real"

_PAGE_BYTES = 2 << 20
# The smallest capacity is found to within this part of the history's peak.
_CAPACITY_TOLERANCE = 0.0025
# A fixed loop should have reached its steady state after so many iterations.
_SETTLING_ITERATIONS = 3
# One for the figures of the history itself, the others for the time on a warm cache.
TIMED_PASSES = 5
_PARALLEL_WORKERS = 2
_SETTINGS = {"expandable": "expandable_segments:True"}


class ReplayError(Exception):
    """A measurement could not be made; the message says why."""


@dataclasses.dataclass(frozen=True)
class SteadyState:
    """What the allocator cost once it was warm."""

    # After three iterations of a fixed loop, else after the history's own warm-up, else in the second of two passes, of
    # which this is the first event.
    from_event: int
    allocations: int
    driver_calls: dict[str, int]
    driver_ns: int
    host_syncs: int
    host_ns: int | None = None


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One history through one allocator; the columns of ``frugal-alloc replay --json``. Sizes in bytes."""

    history: str
    allocator: str
    events: int
    capacity_bytes: int
    # False: it ran out of memory, at event `failed_at`; the figures are of what came before.
    completed: bool
    failed_at: int | None
    # Most bytes, as requested, that were allocated or freed but awaiting an event at a time.
    peak_live_bytes: int
    # Most memory of the GPU that the allocator held at a time.
    peak_reserved_bytes: int
    # The first of these over the second; None unless completed.
    utilisation: float | None
    # The smallest capacity that the history completes in; None unless asked for.
    min_capacity_bytes: int | None
    driver_calls: dict[str, int]
    # By the simulated GPU's latency model. On a real GPU measured: of frugal_alloc each call; of the others, the calls
    # into the allocator that took memory from the device or gave some back, which are then all that driver_calls has.
    driver_ns: int
    # Host CPU time of an allocation and its free on a warm cache, the allocator's own, on a real GPU wall time; None
    # unless completed.
    ns_per_pair: float | None
    # Why it did not complete, in the allocator's words.
    error: str | None
    # Calls that block the host: of a stream, an event, the device, or cudaFree.
    host_syncs: int
    # The event at which the most memory was held for the first time, and the driver's time up to it.
    peak_reserved_at: int
    driver_ns_to_peak: int
    # None unless completed.
    steady: SteadyState | None
    # How many events the streams were behind the host; 0: they had no work but what a recording says.
    stream_lag: int
    # What it was played on: "simulated" or "real".
    device: str = SIMULATED
    # Wall time in all calls into the allocator, driver calls included; None on the simulated GPU.
    host_ns: int | None = None


class Replayer:
    """Starts the workers for one installation of torch. Any thread may use it; Stop() ends all that is running."""

    def __init__(self, device: str = SIMULATED, settings: str = "") -> None:
        """
        Args:
            device: SIMULATED, or REAL: the first GPU that this process sees, whose time is the wall's. A capacity is
                then a limit on the allocator, and streams have no work.
            settings: Of PyTorch's allocator, as PYTORCH_CUDA_ALLOC_CONF has them.

        Raises:
            MissingPart: torch with CUDA, or a library of ours for it, is not installed.
        """
        self.device, self._settings = device, settings
        self._torch = installation.find_cuda_torch()
        self._replay_library = installation.find_library("replay", self._torch)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def measure(
        self,
        history: History,
        allocator: str,
        capacity: int,
        find_minimum: bool,
        *,
        passes: int = TIMED_PASSES,
        stream_lag: int = 0,
        tolerance: float = _CAPACITY_TOLERANCE,
    ) -> Measurement:
        """Plays the history with plenty of passes; with `find_minimum`, once more for every capacity that is tried.

        Args:
            passes: 1: neither time, nor the steady state of a history that does not say when its warm-up ends.
            stream_lag: so many events each stream is behind the host.
            tolerance: of the smallest capacity, as a part of the most live memory.

        Raises:
            ReplayError: a worker failed.
            MissingPart, SimulationError: the allocator, or the simulated GPU, is not installed.
        """
        outcome = self.play(history, allocator, capacity, passes, stream_lag)
        minimum = None
        if find_minimum and outcome["outcome"] == "completed":
            minimum = smallest_capacity(
                history.peak_live_bytes,
                outcome["peak_reserved_bytes"],
                capacity,
                lambda size: self.completes(history, allocator, size, stream_lag),
                tolerance,
            )
        return Measurement(
            history=history.name,
            allocator=allocator,
            events=history.event_count,
            capacity_bytes=capacity,
            peak_live_bytes=history.peak_live_bytes,
            min_capacity_bytes=minimum,
            stream_lag=stream_lag,
            device=self.device,
            **_figures(history, outcome),
        )

    def completes(self, history: History, allocator: str, capacity: int, stream_lag: int = 0) -> bool:
        """Whether the history can be played to its end in that much memory. Raises as measure() does."""
        return self.play(history, allocator, capacity, stream_lag=stream_lag)["outcome"] == "completed"

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def play(
        self,
        history: History,
        allocator: str,
        capacity: int,
        passes: int = 1,
        stream_lag: int = 0,
        *,
        checks_order: bool = False,
    ) -> dict[str, Any]:
        """What came of it, by the names of bindings/replay/request.h. Raises as measure() does.

        Args:
            checks_order: Two operations that touch the same byte without order are a ReplayError. Every allocation is
                written by its stream and read by it until it is freed; late streams read it, too.
        """
        library = installation.find_library("alloc", self._torch) if allocator == "frugal" else None
        request = {
            "event_count": history.event_count,
            "initial_count": history.initial_count,
            "allocation_count": history.allocation_count,
            "stream_count": history.stream_count,
            "passes": passes,
            "stream_lag": stream_lag,
            "steady_from": steady_from(history),
            "limit_bytes": capacity if self.device == REAL else 0,
            "real_time": self.device == REAL,
        }
        task = {
            "torch_libraries": str(self._torch.libraries),
            "replay_library": str(self._replay_library),
            "allocator_library": str(library) if library else None,
            "request": request,
        }
        what = f"{history.name} with {allocator}"
        environment = _worker_environment(None if self.device == REAL else capacity, allocator, self._settings)
        if checks_order:
            environment["FRUGAL_SIM_ORDER"] = "1"
        status, output, errors = self._run_worker(json.dumps(task), history.events, environment)
        if status != 0:
            raise ReplayError(f"{what}: the worker {_ending(status)}{_last_line(errors)}")
        outcome = json.loads(output.decode(errors="replace"))
        if outcome["outcome"] == "failed":
            raise ReplayError(f"{what}: {outcome['message']}")
        return outcome

    def _run_worker(self, task: str, events: bytes, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
        worker = Path(__file__).with_name("worker.py")
        with self._lock:
            if self._stopped:
                raise ReplayError("stopped")
            process = subprocess.Popen(
                [sys.executable, "-I", str(worker), task],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
            self._running.add(process)
        try:
            output, errors = process.communicate(events)
        finally:
            with self._lock:
                self._running.discard(process)
        return process.returncode, output, errors


def steady_from(history: History) -> int:
    """The event after which costs are those of the steady state, counted on through repetitions of the history."""
    if len(history.turn_ends) > _SETTLING_ITERATIONS:
        return history.turn_ends[_SETTLING_ITERATIONS - 1]
    return history.event_count if history.warm_up_end is None else history.warm_up_end


def _figures(history: History, outcome: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Measurement that the worker has found out."""
    completed, reserved = outcome["outcome"] == "completed", outcome["peak_reserved_bytes"]
    return {
        **_costs(outcome["costs"]),
        "completed": completed,
        "failed_at": None if completed else outcome["failed_at"],
        "peak_reserved_bytes": reserved,
        "utilisation": round(history.peak_live_bytes / reserved, 4) if completed else None,
        "ns_per_pair": None if outcome["ns_per_pair"] is None else round(outcome["ns_per_pair"], 1),
        "error": None if completed else outcome["message"],
        "peak_reserved_at": outcome["peak_reserved_at"],
        "driver_ns_to_peak": outcome["driver_ns_to_peak"],
        "steady": _steady_state(history, outcome) if completed else None,
    }


def _steady_state(history: History, outcome: dict[str, Any]) -> SteadyState | None:
    if not outcome["steady_allocations"]:
        return None
    return SteadyState(steady_from(history), outcome["steady_allocations"], **_costs(outcome["steady"]))


def _costs(costs: dict[str, Any]) -> dict[str, Any]:
    """The fields that a Measurement and a SteadyState have alike."""
    calls = costs["driver_calls"]
    return {
        "driver_calls": calls,
        "driver_ns": costs["driver_ns"],
        "host_syncs": host_syncs(calls),
        "host_ns": costs["host_ns"] or None,
    }


def host_syncs(driver_calls: dict[str, int]) -> int:
    """cudaFree waits for the device, though the simulated GPU does not count that as a `sync`."""
    return driver_calls["sync"] + driver_calls["free"]


def run_all(replayer: Replayer, jobs: list[Callable[[], T]]) -> list[T]:
    """The results of all jobs, which use the replayer, in their order.

    Raises:
        Exception: the first failure. As on KeyboardInterrupt, what else is running has been ended.
    """
    with concurrent.futures.ThreadPoolExecutor(1 if replayer.device == REAL else _PARALLEL_WORKERS) as executor:
        futures = [executor.submit(job) for job in jobs]
        try:
            done, _ = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION)
            for future in done:
                if future.exception():
                    raise future.exception()
            return [future.result() for future in futures]
        except BaseException:
            replayer.stop()
            executor.shutdown(cancel_futures=True)
            raise


def smallest_capacity(
    peak_live: int,
    peak_reserved: int,
    most: int,
    completes: Callable[[int], bool],
    tolerance: float = _CAPACITY_TOLERANCE,
) -> int:
    """The smallest capacity, in whole pages, found by bisection from the peak of live memory up.

    Completion need not be monotone in the capacity: this is the smallest that completes next to one that does not.

    Args:
        peak_reserved: what the allocator took where there was plenty.
        most: a capacity that completes.
    """
    lower = _round_up(peak_live)
    if lower >= most:
        return most
    if completes(lower):
        return lower
    upper = min(max(_round_up(peak_reserved), lower + _PAGE_BYTES), most)
    while upper < most and not completes(upper):
        lower, upper = upper, min(_round_up(upper + upper // 8), most)
    while upper - lower > max(_PAGE_BYTES, tolerance * peak_live):
        middle = _round_up((lower + upper) // 2)
        if completes(middle):
            upper = middle
        else:
            lower = middle
    return upper


def _round_up(size: int) -> int:
    return -(-size // _PAGE_BYTES) * _PAGE_BYTES


def _worker_environment(capacity: int | None, allocator: str, settings: str) -> dict[str, str]:
    """Of a simulated GPU of this capacity; None: of the GPU that there is."""
    # What the user has set is for other programs, and would change the measurement.
    base = {k: v for k, v in os.environ.items() if k not in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")}
    # The older of two names: every torch from 2.9 on reads it. Of what is said twice the latter holds.
    base["PYTORCH_CUDA_ALLOC_CONF"] = ",".join(filter(None, [settings, _SETTINGS.get(allocator)]))
    if capacity is None:
        return base
    base = {k: v for k, v in base.items() if not k.startswith("FRUGAL_SIM_") or k == "FRUGAL_SIM_LIBRARIES"}
    # All that the simulated GPU has is the allocator's, so that a capacity is what it could take.
    base["FRUGAL_SIM_CONTEXT"] = "0"
    return simulated_gpu.environment(capacity, backing="none", base=base)


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().split("\n")
    return f" ({lines[-1]})" if lines[-1] else ""

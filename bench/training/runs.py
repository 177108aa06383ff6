"""Runs the trainings, each in a process of its own, in an order that spreads the drift of the machine over all."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frugal_alloc._simulation import simulated_gpu

from . import allocators

AMPLE = "ample"
# What ends us, and the worker with us.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ROOT = Path(__file__).resolve().parents[2]
_CONFIGURED = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")


@dataclasses.dataclass(frozen=True)
class Run:
    """One training with one allocator at one capacity. Sizes in bytes; None: not known, or not reached."""

    workload: str
    allocator: str
    # AMPLE, or the multiple of the most that ours held with ample memory.
    capacity: str
    capacity_bytes: int | None
    repeat: int
    # "completed", "out_of_memory", or "failed": `problem` says how.
    outcome: str
    problem: str | None
    # Including those of the warm-up.
    steps_done: int
    # Over the window after the warm-up; None on the simulated GPU.
    steps_per_second: float | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    alloc_retries: int | None = None
    ooms: int | None = None
    # Calls for memory by kind, and the time of all driver calls, over the whole run and over the window alone. On the
    # simulated GPU as it counts and by its model. On a real one frugal_alloc's are measured; of PyTorch's allocators it
    # is known how often they took memory from the device ("malloc") and gave it back ("free").
    driver_calls: dict[str, int] | None = None
    driver_ns: int | None = None
    window_driver_calls: dict[str, int] | None = None
    window_driver_ns: int | None = None

    @property
    def completed(self) -> bool:
        return self.outcome == "completed"


class NoTorch(Exception):
    """torch cannot be imported; the message says why."""


def environment() -> dict[str, str]:
    """Of a process that finds bench/, without what the user has set: it is for other programs and changes figures."""
    base = {name: value for name, value in os.environ.items() if not _configures(name)}
    base["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return base


class Trainer:
    """Carries out trainings, on the GPU or on a simulated one, one at a time."""

    def __init__(self, simulated_memory: int | None, settings: dict[str, Any]) -> None:
        """
        Args:
            simulated_memory: bytes of the simulated GPU; None: the real one.
            settings: what every task says: seed, warm_up, steps, quick.

        Raises:
            SimulationError: there can be no such simulated GPU.
        """
        base = environment()
        if simulated_memory is not None:
            base = simulated_gpu.environment(simulated_memory, base=base)
        self._environment = base
        self._settings = settings

    def describe(self) -> dict[str, Any]:
        """The versions of torch and torchvision, if that is installed, and the GPU that they see, or None.

        Raises:
            NoTorch: torch cannot be imported.
        """
        done = _run("describe", self._environment)
        if done.returncode != 0:
            raise NoTorch(f"torch is needed ({_last_line(done.stderr) or _ending(done.returncode)}); run tools/setup")
        return json.loads(done.stdout.splitlines()[-1])

    def train(self, workload: str, allocator: str, capacity: str, capacity_bytes: int | None, repeat: int) -> Run:
        """Carries out one training; a process that fails is a failed run."""
        named = {"workload": workload, "allocator": allocator, "capacity_bytes": capacity_bytes}
        environment = dict(self._environment)
        if allocator in allocators.SETTINGS:
            # The older of two names: every torch from 2.9 on reads it.
            environment["PYTORCH_CUDA_ALLOC_CONF"] = allocators.SETTINGS[allocator]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "outcome.json"
            done = _run(json.dumps({**self._settings, **named, "outcome_file": str(file)}), environment)
            if done.returncode == 0:
                return Run(capacity=capacity, repeat=repeat, **named, **json.loads(file.read_text()))
        problem = f"the process {_ending(done.returncode)}: {_last_line(done.stderr)}"
        return Run(capacity=capacity, repeat=repeat, **named, outcome="failed", problem=problem, steps_done=0)


def carry_out(
    trainer: Trainer,
    workloads: list[str],
    names: list[str],
    capacities: list[str],
    repeats: int,
    advance: Callable[[str], None],
    end: float = math.inf,
) -> tuple[list[Run], list[str]]:
    """All runs, and what had to be left out.

    Allocators that are compared run one after another, and who comes first changes from one repeat to the next. Tight
    capacities are multiples of the most that ours holds with ample memory, which a training found out that is not
    among the runs.

    Args:
        end: on the monotonic clock. What would probably not be done by then is not begun; who is compared with whom is
            carried out whole or not at all.
    """
    runs: list[Run] = []
    left_out: list[str] = []
    peaks: dict[str, int] = {}
    longest: dict[str, float] = {}
    for workload in workloads if set(capacities) != {AMPLE} else []:
        advance(f"{workload}: finding the peak of ours")
        sizing = trainer.train(workload, "frugal", AMPLE, None, repeat=0)
        if sizing.completed:
            peaks[workload] = sizing.peak_reserved_bytes
        else:
            left_out.append(f"{workload} at tight capacities: ours did not complete ({sizing.problem})")
    compared = [(workload, capacity) for workload in workloads for capacity in capacities]
    compared = [(workload, capacity) for workload, capacity in compared if capacity == AMPLE or workload in peaks]
    for repeat in range(repeats):
        for workload, capacity in compared:
            size = None if capacity == AMPLE else int(float(capacity) * peaks[workload])
            began = time.monotonic()
            if began + longest.get(workload, 0.0) > end:
                left_out.append(f"{workload}, {capacity}, repeat {repeat + 1}: no time was left")
                continue
            first = repeat % len(names)
            for name in names[first:] + names[:first]:
                advance(f"{workload}, {capacity}: {allocators.TITLES[name]}")
                runs.append(trainer.train(workload, name, capacity, size, repeat))
            longest[workload] = max(longest.get(workload, 0.0), time.monotonic() - began)
    return runs, left_out


def _run(task: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a worker to its end. Whatever interrupts us ends it."""
    # Not in the moment in which there is a process that we don't know yet.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.training.worker", task],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
        # A terminal's Ctrl-C is for us: we end the worker without a traceback of its own.
        start_new_session=True,
    )
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
        output, errors = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _configures(variable: str) -> bool:
    return variable in _CONFIGURED or (variable.startswith("FRUGAL_SIM_") and variable != "FRUGAL_SIM_LIBRARIES")


def _ending(status: int) -> str:
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""

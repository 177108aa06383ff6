"""Starts the trainings, each in a process of its own, in an order that spreads the drift of the machine over all."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from frugal_alloc._simulation import simulated_gpu

from . import allocators
from .results import AMPLE, Run

# What ends us, and the worker with us.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ROOT = Path(__file__).resolve().parents[2]
_CONFIGURED = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")


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
        status, output, errors = _run(["describe"], self._environment)
        if status != 0:
            raise NoTorch(f"torch is needed ({_last_line(errors) or _ending(status)}); run tools/setup")
        return json.loads(output.splitlines()[-1])

    def train(self, workload: str, allocator: str, capacity: str, capacity_bytes: int | None, repeat: int) -> Run:
        """Carries out one training; a process that fails is a failed run."""
        named = {"workload": workload, "allocator": allocator, "capacity_bytes": capacity_bytes}
        environment = dict(self._environment)
        if allocator in allocators.SETTINGS:
            # The older of two names: every torch from 2.9 on reads it.
            environment["PYTORCH_CUDA_ALLOC_CONF"] = allocators.SETTINGS[allocator]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "outcome.json"
            status, _, errors = _run([json.dumps({**self._settings, **named, "outcome_file": str(file)})], environment)
            if status == 0:
                return Run(capacity=capacity, repeat=repeat, **named, **json.loads(file.read_text()))
        problem = f"the process {_ending(status)}: {_last_line(errors)}"
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
    tight = [capacity for capacity in capacities if capacity != AMPLE]
    peaks: dict[str, int] = {}
    longest: dict[str, float] = {}
    for workload in workloads if tight else []:
        advance(f"{workload}: finding the peak of ours")
        sizing = trainer.train(workload, "frugal", AMPLE, None, repeat=0)
        if sizing.completed:
            peaks[workload] = sizing.peak_reserved_bytes
        else:
            left_out.append(f"{workload} at tight capacities: ours did not complete ({sizing.problem})")
    for repeat in range(repeats):
        for workload in workloads:
            for capacity in capacities:
                if capacity != AMPLE and workload not in peaks:
                    continue
                size = None if capacity == AMPLE else int(float(capacity) * peaks[workload])
                began = time.monotonic()
                if began + longest.get(workload, 0.0) > end:
                    left_out.append(f"{workload}, {capacity}, repeat {repeat + 1}: no time was left")
                    continue
                for name in _rotated(names, repeat):
                    advance(f"{workload}, {capacity}: {allocators.TITLES[name]}")
                    runs.append(trainer.train(workload, name, capacity, size, repeat))
                longest[workload] = max(longest.get(workload, 0.0), time.monotonic() - began)
    return runs, left_out


def _rotated(names: list[str], by: int) -> Iterator[str]:
    for place in range(len(names)):
        yield names[(place + by) % len(names)]


def _run(arguments: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Runs a worker to its end: its status, output and errors. Whatever interrupts us ends it."""
    # Not in the moment in which there is a process that we don't know yet.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.training.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            errors="replace",
            # A terminal's Ctrl-C is for us: we end the worker without a traceback of its own.
            start_new_session=True,
        )
        with process:
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                output, errors = process.communicate()
            except BaseException:
                process.kill()
                process.wait()
                raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process.returncode, output, errors


def _configures(variable: str) -> bool:
    return variable in _CONFIGURED or (variable.startswith("FRUGAL_SIM_") and variable != "FRUGAL_SIM_LIBRARIES")


def _ending(status: int) -> str:
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""

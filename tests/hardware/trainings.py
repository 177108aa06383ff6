"""P7: whether trainings are as fast with ours as with PyTorch's allocators, and faster where memory is tight.

Each is a process of bench/training/worker.py, and is told of as soon as it has ended. A shortened run has few of them:
the most telling comes first, and who is compared is carried out one after another.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

from frugal_alloc._command.doctor import processes
from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.step import StepReport

from . import kit

_MODELS = {"gpt2": (), "fasterrcnn": ("torchvision",)}
#: Where time ends in the middle of them, the first two say most.
_ALLOCATORS = ("native", "frugal", "expandable")
AMPLE, _TIGHT = "ample", 1.05
_REPEATS = 2
_SETTINGS = {"seed": 0, "steps": 30, "warm_up": 10, "quick": False}
#: In a shortened run; on the simulated GPU the least that shows that all of it works.
_LEAST = {"steps": 10, "warm_up": 5}
_SIMULATED_SETTINGS = {"seed": 0, "steps": 6, "warm_up": 2, "quick": True}
#: What a training took before may be a little more the next time.
_SLACK = 1.2


def run(report: StepReport) -> None:
    trainings = _Trainings(report)
    models = list(_MODELS)[:1] if report.simulated else list(_MODELS)
    for model in list(models):
        for module in _MODELS[model]:
            if importlib.util.find_spec(module) is None:
                report.skip(model, f"{module} is not installed")
                models.remove(model)
    for repeat in range(1 if report.simulated else _REPEATS):
        for capacity in (AMPLE,) if report.simulated else (AMPLE, str(_TIGHT)):
            for model in models:
                trainings.compare(model, capacity, repeat)
    trainings.conclude()


class _Trainings:
    def __init__(self, report: StepReport) -> None:
        self._report = report
        self._longest = 0.0
        # What ours held at most with ample memory, by model.
        self._peaks: dict[str, int] = {}
        self._possible = self._done = 0
        self._was_cut_short = False
        shortened = {name: report.rounds(_SETTINGS[name], least) for name, least in _LEAST.items()}
        self._settings: dict[str, Any] = _SIMULATED_SETTINGS if report.simulated else _SETTINGS | shortened

    def compare(self, model: str, capacity: str, repeat: int) -> None:
        """Each allocator's training; none of them where there is no time for all."""
        name = f"{model}, {capacity}{f', repeat {repeat + 1}' if repeat else ''}"
        size = None
        if capacity != AMPLE:
            if model not in self._peaks:
                self._report.skip(name, "ours has not completed it with ample memory")
                return
            size = int(float(capacity) * self._peaks[model])
        if self._report.seconds_left() < _SLACK * self._longest * len(_ALLOCATORS):
            self._report.skip(name, "no time was left")
            return
        first = repeat % len(_ALLOCATORS)  # who comes first changes, so that the machine's drift is spread
        runs = {}
        for allocator in _ALLOCATORS[first:] + _ALLOCATORS[:first]:
            found = self._train(name, model, allocator, size)
            if found is None:
                self._was_cut_short = True
                self._report.overrun(f"{name}: {allocator} trains")
                break
            runs[allocator] = found
        self._judge(name, runs)
        self._tell(name, runs)
        ours = runs.get("frugal", {})
        if capacity == AMPLE and ours.get("outcome") == "completed":
            self._peaks[model] = ours["peak_reserved_bytes"]

    def conclude(self) -> None:
        name = "ours completes every training"
        if self._possible:
            said = f"{self._done} of {self._possible} that can be completed here"
            self._report.check(name, self._done == self._possible, said)
        elif not self._was_cut_short:
            self._report.unknown(name, "nothing was completed here, with any allocator")

    def _train(self, name: str, model: str, allocator: str, size: int | None) -> dict[str, Any] | None:
        """What came of it; None if it was not done in the time that is left."""
        file, began = self._report.folder / "outcome.json", now()
        file.unlink(missing_ok=True)
        task = {**self._settings, "workload": model, "allocator": allocator, "capacity_bytes": size}
        command = [sys.executable, "-m", "bench.training.worker", json.dumps({**task, "outcome_file": str(file)})]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(kit.ROOT), os.environ.get("PYTHONPATH", "")])}
        if allocator == "expandable":
            # The older of two names: every torch from 2.9 on reads it.
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        ended = processes.run(command, self._report.seconds_left(), environment, self._report.folder)
        seconds = (now() - began) / 1e9
        with (self._report.folder / "trainings.txt").open("a") as log:
            log.write(f"{name}: {allocator}, {seconds:.1f} s\n{ended.out}{ended.err}")
        if ended.status is None:
            return None
        self._longest = max(self._longest, seconds)
        if ended.status == 0 and file.exists():
            found = json.loads(file.read_text())
        else:
            found = {"outcome": "failed", "problem": ended.said}
        self._report.detail(f"{name}: {allocator}", **task, **found, seconds=round(seconds, 1))
        return found

    def _judge(self, name: str, runs: dict[str, dict[str, Any]]) -> None:
        """Ours has failed in what was completed here, by whomever; what nobody completes says nothing of it."""
        possible = any(found["outcome"] == "completed" for found in runs.values())
        for allocator, found in runs.items():
            completed, is_ours = found["outcome"] == "completed", allocator == "frugal"
            self._possible += is_ours and possible
            self._done += is_ours and completed
            if completed or (found["outcome"] == "out_of_memory" and not is_ours):
                continue  # how much memory the others need is a figure
            said = found["problem"] or "out of memory"
            if is_ours and possible:
                self._report.check(f"{name}: {allocator} trains", False, said)
            else:
                self._report.skip(f"{name}: {allocator} trains", f"it says nothing of ours: {said}")

    def _tell(self, name: str, runs: dict[str, dict[str, Any]]) -> None:
        """Speeds, and ours beside the others'."""
        ours = runs.get("frugal", {})
        for allocator, found in runs.items():
            speed = found.get("steps_per_second")
            held = found.get("peak_reserved_bytes")
            said = found["outcome"] if held is None else f"{found['outcome']}; {held / (1 << 30):.2f} GiB held"
            if speed or self._report.simulated:
                self._report.figure(f"{name}: {allocator}", speed or 0.0, "steps/s", said)
            if allocator != "frugal" and speed and ours.get("steps_per_second"):
                what = f"{name}: steps per second, ours ÷ {allocator}"
                self._report.figure(what, ours["steps_per_second"] / speed, "times")
        if ours.get("window_driver_ns") is not None:
            what, steps = f"{name}: driver time of ours after the warm-up", self._settings["steps"]
            self._report.figure(what, ours["window_driver_ns"] / 1e6, "ms", f"in {steps} steps")

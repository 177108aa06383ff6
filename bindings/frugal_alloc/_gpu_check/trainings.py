"""P7: whether trainings are as fast with ours as with PyTorch's allocators, and faster where memory is tight."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from . import kit, programs
from .step_report import CannotTell, StepReport

_MODELS = ("gpt2", "fasterrcnn")
_ALLOCATORS = ("native", "expandable", "frugal")
_CAPACITIES = ("ample", "1.05")
_FULL = ("--repeats", "2", "--steps", "30", "--warm-up", "10")
_SIMULATED_BYTES = 8 << 30
#: Of the time: what was begun by then comes to its end.
_PLANNED = 0.85
#: train_bench's exit status where it has no torch, or is not understood.
_CANNOT_TRAIN = 2


def run(report: StepReport) -> None:
    root = kit.root()
    if root is None:
        raise CannotTell("the trainings are not beside the package; run tools/gpu_check pack in a checkout")
    file = report.folder / "trainings.json"
    command = [sys.executable, "-m", "bench.train_bench", "--json", str(file)]
    command += ["--allocators", ",".join(_ALLOCATORS)]
    if report.simulated:
        # The least that shows that all of it works here.
        command += [
            "--models",
            _MODELS[0],
            "--capacities",
            _CAPACITIES[0],
            "--quick",
            "--simulate",
            str(_SIMULATED_BYTES),
        ]
    else:
        command += [
            "--capacities",
            ",".join(_CAPACITIES),
            "--models",
            ",".join(_MODELS),
            *_FULL,
            "--minutes",
            f"{report.seconds_left() * _PLANNED / 60:.3f}",
        ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    ended = programs.run(command, report.seconds_left(), environment, report.folder)
    (report.folder / "trainings.txt").write_text(ended.out + ended.err)
    if ended.status is None:
        programs.say_overrun(report, "the trainings come to their end")
        return
    if not file.exists():
        if ended.status == _CANNOT_TRAIN:
            report.unknown("the trainings come to their end", ended.said)
        else:
            report.check("the trainings come to their end", False, ended.said)
        return
    _tell(report, json.loads(file.read_text()))


def _tell(report: StepReport, found: dict[str, Any]) -> None:
    for left_out in found["setup"]["left_out"]:
        report.skip(left_out.split(":")[0].split(" was left out")[0], left_out)
    if found["setup"]["simulated"] and not report.simulated:
        report.unknown("the trainings come to their end", "PyTorch sees no GPU here, so they ran on the simulated one")
        return
    for training in found["runs"]:
        report.detail(_name(training), **training)
    _judge(report, found["runs"])
    for bar in found["bars"]:
        try:
            report.figure(bar["what"], float(bar["measured"]), "times", bar["bar"])
        except ValueError:
            report.detail(bar["what"], said=bar["measured"])
    for training in found["runs"]:
        is_first_of_ours = training["allocator"] == "frugal" and training["repeat"] == 0
        if is_first_of_ours and training["window_driver_ns"] is not None:
            name = "{workload}, {capacity}: driver time of ours after the warm-up".format(**training)
            report.figure(name, training["window_driver_ns"] / 1e6, "ms", f"in {found['setup']['steps']} steps")


def _judge(report: StepReport, runs: list[dict[str, Any]]) -> None:
    """Ours has failed in what was completed here, by whomever; what nobody completes says nothing of it."""
    possible = {_what(training) for training in runs if training["outcome"] == "completed"}
    ours, done = 0, 0
    for training in runs:
        completed, is_ours = training["outcome"] == "completed", training["allocator"] == "frugal"
        counts = is_ours and _what(training) in possible
        ours, done = ours + counts, done + (counts and completed)
        if completed or (training["outcome"] == "out_of_memory" and not is_ours):
            continue  # how much memory the others need is a figure
        said = training["problem"] or "out of memory"
        if counts:
            report.check(f"{_name(training)} trains", False, said)
        else:
            report.skip(f"{_name(training)} trains", f"it says nothing of ours: {said}")
    if ours:
        report.check("ours completes every training", done == ours, f"{done} of {ours} that can be completed here")
    else:
        report.unknown("ours completes every training", "nothing was completed here, with any allocator")


def _what(training: dict[str, Any]) -> tuple[str, str]:
    return training["workload"], training["capacity"]


def _name(training: dict[str, Any]) -> str:
    return "{workload}, {capacity}: {allocator}".format(**training)

"""P7: whether trainings are as fast with ours as with PyTorch's allocators, and faster where memory is tight."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from . import kit, programs
from .step_report import StepFailed, StepReport

_MODELS = ("gpt2", "fasterrcnn")
_ALLOCATORS = ("native", "expandable", "frugal")
_CAPACITIES = ("ample", "1.05")
_FULL = ("--repeats", "2", "--steps", "30", "--warm-up", "10")
_SIMULATED_BYTES = 8 << 30
#: Of the time: what was begun by then comes to its end.
_PLANNED = 0.85


def run(report: StepReport) -> None:
    root = kit.root()
    if root is None:
        raise StepFailed("the trainings are not beside the package; run tools/gpu_check pack in a checkout")
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
        report.check("the trainings come to their end", False, ended.said)
        return
    _tell(report, json.loads(file.read_text()))


def _tell(report: StepReport, found: dict[str, Any]) -> None:
    for left_out in found["setup"]["left_out"]:
        report.skip(left_out.split(":")[0].split(" was left out")[0], left_out)
    for training in found["runs"]:
        name = "{workload}, {capacity}: {allocator}".format(**training)
        if training["outcome"] == "failed":
            report.check(f"{name} trains", False, training["problem"])
        report.detail(name, **training)
    ours = [training for training in found["runs"] if training["allocator"] == "frugal"]
    done = sum(training["outcome"] == "completed" for training in ours)
    report.check("ours completes every training", done == len(ours) > 0, f"{done} of {len(ours)}")
    for bar in found["bars"]:
        try:
            report.figure(bar["what"], float(bar["measured"]), "times", bar["bar"])
        except ValueError:
            report.detail(bar["what"], said=bar["measured"])
    for training in ours:
        if training["repeat"] == 0 and training["window_driver_ns"] is not None:
            name = "{workload}, {capacity}: driver time of ours after the warm-up".format(**training)
            report.figure(name, training["window_driver_ns"] / 1e6, "ms", f"in {found['setup']['steps']} steps")

"""P6: whether values survive while memory is moved under running work: ``soak`` under each allocator."""

from __future__ import annotations

import json
import os
import re
import sys

from frugal_alloc._command.doctor import machine, processes
from frugal_alloc._command.doctor.step import Needs, StepReport

ALLOCATORS = {"frugal": "frugal_alloc", "native": "native", "expandable": "expandable_segments"}
#: Of the time: ours is what is tested, the others show that the program itself is right.
_SHARES = {"frugal": 0.7, "native": 0.15, "expandable": 0.15}
_MOST_BYTES = 16 << 30
#: Of what is free: where nobody else uses the GPU, and where somebody does.
_ALONE, _SHARED = 0.6, 0.25
_SIMULATED_BYTES = 1 << 30
_ROUNDS = 1_000_000
_SIMULATED_ROUNDS = 300
#: For a process to start, and for what is still to run when its time is over.
_AROUND_SECONDS = 20.0
_ORDER = re.compile(r"the order of (\d+) accesses was checked, (\d+) violations")
_SEED = 14


def run(report: StepReport) -> None:
    share = int(machine.describe()["free_bytes"] * (_ALONE if report.fills_the_device else _SHARED))
    limit = _SIMULATED_BYTES if report.simulated else min(_MOST_BYTES, share)
    whole, problems = report.seconds_left(), {}
    for allocator, name in ALLOCATORS.items():
        if report.simulated and allocator != "frugal":
            # A control of values.
            report.not_shown(f"{name}: values survive", "needs values, and this is the simulated GPU")
        else:
            seconds = max(5.0, whole * _SHARES[allocator] - _AROUND_SECONDS / 2)
            if problem := _soak(report, allocator, limit, seconds):
                problems[allocator] = problem
    for allocator, problem in problems.items():
        end = f"{ALLOCATORS[allocator]}: the program ends"
        if allocator == "frugal" and len(problems) < len(ALLOCATORS):
            report.check(end, False, problem)
        else:
            report.unknown(end, problem)


def _soak(report: StepReport, allocator: str, limit: int, seconds: float) -> str:
    """Why it did not come to its end; "" if it did, or had no time to."""
    task = {"allocator": allocator, "limit": limit, "seed": _SEED, "seconds": seconds}
    task["rounds"] = _SIMULATED_ROUNDS if report.simulated else _ROUNDS
    environment = dict(os.environ)
    if allocator == "expandable":
        # The older of two names: every torch from 2.9 on reads it.
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if report.simulated:
        environment["FRUGAL_SIM_ORDER"] = "1"
    command = [sys.executable, "-m", "hardware.soak", json.dumps(task)]
    ended = processes.run(command, min(seconds + _AROUND_SECONDS, report.seconds_left()), environment)
    name = ALLOCATORS[allocator]
    if ended.status is None:
        report.overrun(f"{name}: values survive")
        return ""
    said = ended.out.strip().splitlines()
    if not said:
        return ended.said
    _judge(report, name, json.loads(said[-1]), limit)
    if order := _ORDER.search(ended.err):
        good = order[2] == "0" and int(order[1]) > 0
        report.check(f"{name}: all work is in order", good, order[0])
    return ""


def _judge(report: StepReport, name: str, found: dict[str, int], limit: int) -> None:
    report.detail(name, seed=_SEED, limit_bytes=limit, **found)
    said = (
        f"{found['wrong']} of {found['compared']:,} tensors wrong, {found['handed_over']:,} used on another stream; "
        f"seed {_SEED}, limit {limit >> 20} MiB, out of memory {found['out_of_memory']} times"
    )
    report.check(f"{name}: values survive", found["wrong"] == 0 and found["compared"] > 0, said, Needs.VALUES)
    if found["stitches"] is None:
        return
    moved = f"{found['stitches']} stitches, {found['unmaps']} unmaps"
    report.check(f"{name}: memory was moved and unmapped meanwhile", min(found["stitches"], found["unmaps"]) > 0, moved)

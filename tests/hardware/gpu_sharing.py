"""P9: eight processes share a GPU with ours: whether each trains, what they hold together, and how fast they are."""

from __future__ import annotations

import json
import os
import random
import sys

from frugal_alloc._command.doctor import processes
from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.step import StepFailed, StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB

_PROCESSES = 8
_SECONDS = 30.0
_WARM_UP = 10


def run(report: StepReport) -> None:
    seconds = 0.0 if report.simulated else min(_SECONDS, report.seconds_left() / 4)
    speeds = {}
    for count in (1, _PROCESSES):
        name = f"{count} at once" if count > 1 else "one alone"
        with report.part(f"{name}: trains"):
            found = _trained(count, seconds, report.simulated)
            speeds[count] = sum(each["steps"] / each["seconds"] for each in found)
            held = sum(each["held"] for each in found)
            retries = sum(each["retries"] for each in found)
            report.check(f"{name}: trains", True, f"{sum(each['steps'] for each in found)} steps, {retries} retries")
            report.figure(f"{name}: steps of all", speeds[count], "steps/s", f"{held / GIB:.2f} GiB held together")
    if len(speeds) == 2:
        report.figure("eight at once ÷ one alone", speeds[_PROCESSES] / speeds[1], "times", "steps of all a second")


def _trained(count: int, seconds: float, quick: bool) -> list[dict[str, float]]:
    """What each tells that has trained beside the others; all begin to count together."""
    running = [processes.started(_train, seed, seconds, quick) for seed in range(count)]
    try:
        ready = [each.stdout.readline() for each in running]
        if not all(ready):
            raise StepFailed("one of them ended before it had trained")
        said = []
        for each in running:
            each.stdin.write("go\n")
            each.stdin.flush()
        for each in running:
            said.append(each.communicate()[0])
        if any(each.returncode for each in running):
            raise StepFailed(f"they ended with statuses {[each.returncode for each in running]}")
        return [json.loads(text) for text in said]
    finally:
        for each in running:
            each.kill()
            each.communicate()


def _train(seed: int, seconds: float, quick: bool) -> None:
    import frugal_alloc
    import torch

    from bench.training import programs, workloads

    frugal_alloc.enable()
    shapes, steps = random.Random(seed), 0
    model = (programs.small() if quick else workloads.Gpt2()).cuda()
    step = workloads.train_gpt2(model, 2, workloads.lengths(shapes, quick))
    for _ in range(1 if quick else _WARM_UP):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    began = now()
    while not steps or now() - began < seconds * 1e9:
        step()
        torch.cuda.synchronize()
        steps += 1
    stats = frugal_alloc.memory_stats()
    found = {"steps": steps, "seconds": (now() - began) / 1e9, "held": stats["peak_reserved_bytes"]}
    print(json.dumps(found | {"retries": stats["retries"]}), flush=True)
    os._exit(0)

"""Memory falls asleep and wakes while driver calls fail: run as a program on the simulated GPU, with real values.

    frugal-alloc simulate --memory 1GiB --values cpu -- python faulted_sleep.py CALLS SEED

For each kind of call that can fail and each way to fail, CALLS of the calls that a sleep and a wake make fail in turn,
drawn from SEED. Whatever fails, all of the memory sleeps or none does, and once it is awake it holds what it held. What
happened otherwise is printed as JSON behind "RESULTS".
"""

from __future__ import annotations

import gc
import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable

import frugal_alloc
import torch
from failing_gpu import ERRORS, KINDS, SimulatedGpu
from frugal_alloc._sleep.sleeping import Slept

MIB = 1 << 20


class Sleepers:
    """Tensors of many sizes: some alone in their pages, some beside what is awake, some that sleep before others do."""

    def __init__(self) -> None:
        with frugal_alloc.tag("weights"):
            self.weights = [torch.randn((i % 7 + 1) * 90_001, device="cuda") for i in range(24)]
        with frugal_alloc.tag("caches"):
            self.caches = [torch.randn(600_000, device="cuda") for _ in range(6)]
        self.awake = [torch.randn(1000 * (i + 1), device="cuda") for i in range(8)]
        del self.weights[::5]
        self.before = [tensor.cpu() for tensor in self.all()]
        self.asleep = self.sleep().slept_bytes
        self.wake()

    def all(self) -> list[torch.Tensor]:
        return [*self.weights, *self.caches, *self.awake]

    def begin(self, step: str) -> None:
        """Before a sleep some sleep, before a wake all."""
        self.sleep() if step == "wake" else frugal_alloc.sleep("caches")

    def sleep(self) -> Slept:
        return frugal_alloc.sleep(tags=("weights", "caches"), host=random.choice(("pinned", "pageable")))

    def wake(self) -> None:
        frugal_alloc.wake()

    def is_whole(self) -> bool:
        now = (tensor.cpu() for tensor in self.all())
        return all(torch.equal(a, b) for a, b in zip(self.before, now, strict=True))


def error_of(call: Callable[[], object]) -> str:
    """Empty: it did not fail."""
    try:
        call()
    except frugal_alloc.FrugalAllocError as error:
        return str(error)
    return ""


def run(gpu: SimulatedGpu, sleepers: Sleepers, step: str, plan: str) -> tuple[list[str], int]:
    """What is wrong after the step, in which a call fails as planned, and how many did."""
    sleepers.begin(step)
    held = frugal_alloc.memory_stats()["asleep_bytes"]
    gpu.fail(plan)
    error = error_of(sleepers.sleep if step == "sleep" else sleepers.wake)
    faults = gpu.end_failing()
    wrong = []
    asleep = frugal_alloc.memory_stats()["asleep_bytes"]
    if error and asleep != held:
        wrong.append(f"{asleep - held} bytes sleep more, and the error is: {error}")
    if not error and step == "wake" and asleep:
        wrong.append(f"{asleep} bytes sleep")
    sleepers.wake()
    if not sleepers.is_whole():
        wrong.append(f"contents are lost; the error was: {error}")
    return wrong, faults


def main() -> None:
    calls, seed = int(sys.argv[1]), int(sys.argv[2])
    gc.unfreeze()  # of the process that this was forked from: each sleep would look behind it for half a second
    random.seed(seed)
    warnings.simplefilter("ignore")  # of memory that the driver did not take back
    frugal_alloc.enable()
    gpu = SimulatedGpu()
    sleepers = Sleepers()
    assert sleepers.asleep > 20 * MIB
    torch.cuda.empty_cache()
    used = gpu.memory_used(0)
    wrong: Counter[str] = Counter()
    tries = faults = 0
    for step in ("sleep", "wake"):
        sleepers.begin(step)
        before = gpu.calls()
        sleepers.sleep() if step == "sleep" else sleepers.wake()
        made = gpu.calls() - before
        sleepers.wake()
        for kind in KINDS:
            for error in ERRORS:
                for call in random.sample(range(1, made[kind] + 1), min(calls, made[kind])):
                    plan = f"driver.{kind}@{call}={error}"
                    tries += 1
                    found, failed = run(gpu, sleepers, step, plan)
                    faults += failed
                    wrong.update(f"{step}, {plan}: {what}" for what in found)
                    torch.cuda.empty_cache()
                    if gpu.memory_used(0) != used:
                        wrong[f"{step}, {plan}: {gpu.memory_used(0) - used} bytes are lost"] += 1
    print("RESULTS" + json.dumps({"wrong": dict(wrong), "tries": tries, "faults": faults}))


if __name__ == "__main__":
    main()

"""Runs a test again and again while driver calls of ours fail on the simulated GPU, one in each run.

Which fail is drawn from a seed, the calls that the test makes when nothing fails being known from a run before: every
kind of call that it makes, in every way that calls fail, before a kind comes again. Calls of PyTorch's own, which go
through the runtime, never fail, so whatever shows is the allocator's doing.

After each run all memory is given back, and the allocator must hold as much as after the run without failures, of the
same device; its invariants are verified in each call (`check:full`), and a report that they do not hold is a failure.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import itertools
import random
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

UNKNOWN_KIND = 2**64 - 1  # as a count of calls
Report = dict[str, object]  # the worker's, on one test

# Of the driver's functions, which the allocator alone calls, unless PyTorch has expandable segments.
KINDS = (
    "create",
    "map",
    "set_access",
    "unmap",
    "release",
    "reserve",
    "sync",
    "event_create",
    "event_record",
    "event_query",
    "stream_wait",
    "capture_query",
    "memory_info",
    "context",
)
# The late ones are told by the driver's call after the one that is meant.
ERRORS = ("out_of_memory", "invalid_value", "unknown", "late_out_of_memory", "late_unknown")


class SimulatedGpu:
    """What the simulated GPU tells beyond CUDA; see cuda/simulated/control.h."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcudart.so.13")
        for name in ("frugal_sim_calls", "frugal_sim_faults", "frugal_sim_memory_used"):
            getattr(self._library, name).restype = ctypes.c_uint64

    def calls(self) -> Counter[str]:
        """How many calls of each kind have been made through the driver's functions."""
        calls = Counter({kind: self._library.frugal_sim_calls(f"driver.{kind}".encode()) for kind in KINDS})
        if max(calls.values()) == UNKNOWN_KIND:
            raise RuntimeError("the simulated GPU is older than this program: run tools/setup")
        return calls

    def fail(self, plan: str) -> None:
        if self._library.frugal_sim_set_faults(plan.encode()) != 0:
            raise ValueError(f"not a fault plan: {plan}")

    def end_failing(self) -> int:
        """No call fails from now on; how many have failed since :meth:`fail`."""
        faults = self._library.frugal_sim_faults()
        self._library.frugal_sim_set_faults(b"")
        return faults

    def memory_used(self, gpu: int) -> int:
        return self._library.frugal_sim_memory_used(gpu)


@dataclasses.dataclass(frozen=True)
class Held:
    """What is left of one GPU's memory when all that is free was given back."""

    allocated: int
    # Of the device, beyond what PyTorch's and our books say is held.
    unaccounted: int


def give_back(gpu: SimulatedGpu) -> list[Held]:
    """Gives all free memory back, and tells what is left, by GPU."""
    import torch

    gc.collect()
    left = []
    if not torch.cuda.is_initialized():
        return left
    # One for each stream that a matrix was multiplied on, kept for ever; a test that makes a stream makes another one.
    torch._C._cuda_clearCublasWorkspaces()
    for number in range(torch.cuda.device_count()):
        torch.cuda.synchronize(number)
    torch.cuda.empty_cache()
    for number in range(torch.cuda.device_count()):
        reserved = torch.cuda.memory_reserved(number)
        left.append(Held(torch.cuda.memory_allocated(number), gpu.memory_used(number) - reserved))
    return left


def plans(made: Counter[str], seed: str) -> Iterator[str]:
    """Fault plans without end, each of one failure among the calls that were made; none, if none was."""
    draw = random.Random(seed)
    kinds = [kind for kind in KINDS if made[kind] > 0]
    if not kinds:
        return
    while True:
        errors = {kind: draw.sample(ERRORS, len(ERRORS)) for kind in kinds}
        for turn in range(len(ERRORS)):
            for kind in draw.sample(kinds, len(kinds)):
                yield f"driver.{kind}@{draw.randint(1, made[kind])}={errors[kind][turn]}"


def broken_books(folder: Path) -> str:
    """What the allocator found wrong with its own books, and wrote into `folder`; "" if it found nothing."""
    for path in folder.glob("frugal-inconsistent-*"):
        for line in path.read_text().splitlines():
            if line.startswith("what did not hold"):
                return line
    return ""


class FailingCalls:
    """Runs tests that pass again, with a call failing in each run."""

    def __init__(
        self,
        run: Callable[[types.ModuleType, str], Report],
        runs: int,
        seed: str,
        reports: Path,
        tell: Callable[[Report], None],
    ) -> None:
        """With the worker's run(), how often to run each test again, and the folder of the allocator's reports.

        `tell` is given each plan before it is followed, for whoever finds out that the process has ended.
        """
        self._run = run
        self._runs = runs
        self._seed = seed
        self._reports = reports
        self._tell = tell
        self._gpu = SimulatedGpu()

    def run(self, module: types.ModuleType, name: str) -> Report:
        """The worker's report on one test, for all runs together."""
        start = time.monotonic()
        # What is loaded stays, and need not be looked through after each run.
        gc.freeze()
        first = self._run(module, name)
        if first["outcome"] != "passed":
            return first
        # The first has compiled and loaded what the others find.
        give_back(self._gpu)
        before = self._gpu.calls()
        if self._run(module, name)["outcome"] != "passed":
            return first | {"reason": "not run with failing calls, since it does not pass twice in a process"}
        made = self._gpu.calls() - before
        held = give_back(self._gpu)
        problems, faults, runs = [], 0, 0
        for plan in itertools.islice(plans(made, f"{self._seed} {name}"), self._runs):
            self._tell({"test": name, "plan": plan})
            problem, failed = self._run_once(module, name, plan, held)
            runs += 1
            faults += failed
            if problem:
                problems.append(f"{plan}: {problem}")
        report = first | {"runs": runs, "faults": faults, "seconds": time.monotonic() - start}
        if problems:
            print(*problems, sep="\n", file=sys.stderr, flush=True)
            report |= {"outcome": "faulted", "reason": f"{len(problems)} of them: {problems[0]}"}
        return report

    def _run_once(self, module: types.ModuleType, name: str, plan: str, held: list[Held]) -> tuple[str, int]:
        """What went wrong, "" for nothing; and how many calls failed."""
        self._gpu.fail(plan)
        done = self._run(module, name)
        faults = self._gpu.end_failing()
        left = give_back(self._gpu)
        if books := broken_books(self._reports):
            return books, faults
        if done["outcome"] != "passed":
            return f"{done['outcome']}: {done['reason']}", faults
        if left != held:
            return f"held afterwards: {left}, without failures: {held}", faults
        return "", faults

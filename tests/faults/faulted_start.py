"""Starts frugal_alloc and works a little, with one call of ours failing: for each call, in a process of its own.

    faulted_start.py CALLS SEED once|on

Of each kind of call that starting and working make, the first CALLS fail, and as many later ones drawn from the seed;
"on": with all of the kind after them. Prints, after RESULTS, a JSON object: how many processes and faults there were,
and what was seen other than what is seen when no call fails. Runs on the simulated GPU; the processes are forks of this
one, which never touches CUDA.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings

import frugal_alloc
import torch
from failing_gpu import ERRORS, SimulatedGpu
from frugal_alloc import _native

MIB = 1 << 20


def work() -> dict[str, object]:
    """What is to be the same whichever call fails."""
    frugal_alloc.enable()
    tensors = [torch.empty(mib * MIB, dtype=torch.uint8, device="cuda") for mib in (1, 3, 21, 64, 300)]
    tensors[2].record_stream(torch.cuda.Stream())
    del tensors[1::2]
    # Remapped pages of the two that are gone, or new ones.
    tensors.append(torch.empty(60 * MIB, dtype=torch.uint8, device="cuda"))
    ours = [_native.load().owns(tensor.data_ptr()) for tensor in tensors]
    allocated = torch.cuda.memory_allocated()
    del tensors
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return {
        "ours": ours,
        "allocated": [allocated, torch.cuda.memory_allocated()],
        "reserved": torch.cuda.memory_reserved(),
        "virtual_memory": frugal_alloc.memory_stats()["virtual_memory"],
    }


def start_and_work(plan: str) -> dict[str, object]:
    gpu = SimulatedGpu()
    gpu.fail(plan)
    facts: dict[str, object] = {}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            facts["seen"] = work()
        except Exception as error:
            facts["seen"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    facts["faults"] = gpu.end_failing()
    facts["warned"] = [str(warning.message) for warning in warned]
    facts["used"] = gpu.memory_used(0)
    facts["calls"] = gpu.calls()
    return facts


def in_a_process_of_its_own(plan: str) -> dict[str, object]:
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(there, "w") as pipe:
            json.dump(start_and_work(plan), pipe)
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as pipe:
        facts = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(facts) if status == 0 else {"seen": f"status {status}", "faults": 0, "calls": {}}


def drawn(made: int, calls: int, draw: random.Random) -> list[int]:
    later = range(calls + 1, made + 1)
    return [*range(1, min(calls, made) + 1), *sorted(draw.sample(later, min(calls, len(later))))]


def seen_by_the_user(facts: dict[str, object]) -> dict[str, object]:
    return {key: facts.get(key) for key in ("seen", "warned", "used")}


def main() -> None:
    calls, seed, on = int(sys.argv[1]), sys.argv[2], {"once": "", "on": "+"}[sys.argv[3]]
    undisturbed = in_a_process_of_its_own("")
    expected = seen_by_the_user(undisturbed)
    other: dict[str, object] = {}
    faults = processes = 0
    for kind, made in undisturbed["calls"].items():
        draw = random.Random(f"{seed} {kind}")
        for number, call in enumerate(drawn(made, calls, draw)):
            plan = f"driver.{kind}@{call}{on}={ERRORS[number % len(ERRORS)]}"
            facts = in_a_process_of_its_own(plan)
            faults += facts["faults"]
            processes += 1
            if (seen := seen_by_the_user(facts)) != expected:
                other[plan] = seen
    print("RESULTS" + json.dumps({"faults": faults, "processes": processes, "expected": expected, "other": other}))


if __name__ == "__main__":
    main()

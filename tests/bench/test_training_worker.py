"""bench/training/worker.py on the simulated GPU: what a process answers, with which allocator, and what it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import simulated_gpu

from bench.training import ALLOCATORS, EXPANDABLE, NATIVE, OURS, UNTRACKED

ROOT = Path(__file__).resolve().parents[2]
TASK = {"program": "gpt2", "capacity_bytes": None, "quick": True, "seed": 0}
ASK = """
import json, multiprocessing, sys
from bench.training import worker
forked = multiprocessing.get_context("fork")
pipe, theirs = forked.Pipe()
process = forked.Process(target=worker.serve, args=(theirs, json.loads(sys.argv[1])))
process.start()
theirs.close()
answers = []
for request in json.loads(sys.argv[2]):
    pipe.send(request)
    answers.append(pipe.recv())
if answers[-1]["outcome"] == worker.COMPLETED:
    pipe.send(None)
process.join()
print(json.dumps([answers, process.exitcode]))
"""
COUNTS = """
import json, sys, torch
from bench.training import worker
allocator = sys.argv[1]
worker.install(allocator, None)
by = "frugal" if allocator.startswith("ours") else allocator
torch.cuda.init()
before = worker.counted(by), worker.counted("gpu")
held = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
del held
torch.cuda.empty_cache()
after = worker.counted(by), worker.counted("gpu")
print(json.dumps([{kind: late[kind] - early.get(kind, 0) for kind in late} for early, late in zip(before, after)]))
"""


def run(*arguments: str) -> list:
    environment = simulated_gpu.environment(4 << 30, backing="memory") | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def answers(*requests: list, **changes: object) -> list[dict]:
    """Of a process that ends by itself once nobody asks any more."""
    found, status = run("-c", ASK, json.dumps(TASK | changes), json.dumps(requests))
    assert status == 0
    return found


def test_program_answers_what_it_is_asked_for() -> None:
    _, window, profile = answers(["build"], ["window", 0, 2], ["profile", 1], allocator=OURS)
    assert window["steps"] == 2 and window["ms"] >= window["host_ms"] > 0
    assert 0 < window["allocated_bytes"] <= window["reserved_bytes"]
    assert profile["stacks"] and profile["done"]["allocations"] > 0
    assert profile["garbage"]["ms"] >= 0


def test_program_that_runs_out_of_memory_says_so() -> None:
    (found,) = answers(["build"], allocator=NATIVE, capacity_bytes=8 << 20)
    assert found["outcome"] == "out of memory"
    assert "out of memory" in found["problem"] and "\n" not in found["problem"]


def test_program_that_fails_says_why() -> None:
    assert answers(["build"], ["window", 0], allocator=NATIVE)[-1]["problem"].startswith("TypeError: ")


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_allocator_is_the_one_asked_for_and_counts_its_driver_calls_as_the_gpu_does(allocator: str) -> None:
    counted, by_the_gpu = run("-c", COUNTS, allocator)
    if allocator in (OURS, UNTRACKED):
        assert counted.pop("ns") > 0
        # The GPU counts the two handles, too, with which ours tries virtual memory at first, and what PyTorch calls.
        assert counted["create"] == by_the_gpu["create"] - 2 > 0
        assert counted["unmap"] == by_the_gpu["unmap"] - 2 > 0
        assert counted["malloc"] == counted["free"] == 0
    elif allocator == EXPANDABLE:
        assert by_the_gpu["map"] > 0 == by_the_gpu["malloc"]
    else:
        assert counted == {kind: by_the_gpu[kind] for kind in ("malloc", "free")}
        assert counted["malloc"] == counted["free"] > 0

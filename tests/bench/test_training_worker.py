"""bench/training/worker.py on the simulated GPU: what it counts of a training, and that it tells no speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from frugal_alloc._simulation import simulated_gpu

ROOT = Path(__file__).resolve().parents[2]
TASK = {"workload": "gpt2", "seed": 0, "warm_up": 2, "steps": 6, "quick": True, "capacity_bytes": None}
COUNTS = """
import json, sys, torch
from bench.training import worker
allocator = sys.argv[1]
if allocator == "frugal":
    import frugal_alloc
    frugal_alloc.enable()
torch.cuda.init()
before = worker.counted(allocator), worker.counted("gpu")
held = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
del held
torch.cuda.empty_cache()
after = worker.counted(allocator), worker.counted("gpu")
print(json.dumps([{kind: late[kind] - early.get(kind, 0) for kind in late} for early, late in zip(before, after)]))
"""


def run(*arguments: str, memory: int = 4 << 30, backing: str = "none") -> str:
    environment = simulated_gpu.environment(memory, backing=backing) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(allocator: str, folder: Path, memory: int = 4 << 30, **changes: object) -> dict:
    file = folder / "outcome.json"
    task = {**TASK, "allocator": allocator, "outcome_file": os.fspath(file), **changes}
    run("-m", "bench.training.worker", json.dumps(task), memory=memory, backing="memory")
    return json.loads(file.read_text())


@pytest.mark.parametrize("allocator, used, unused", [("native", "malloc", "map"), ("frugal", "map", "malloc")])
def test_a_training_tells_memory_and_driver_calls_but_no_speed(
    allocator: str, used: str, unused: str, tmp_path: Path
) -> None:
    found = train(allocator, tmp_path)
    assert found["outcome"] == "completed" and found["steps_done"] == 8
    assert found["steps_per_second"] is None
    assert 0 < found["peak_allocated_bytes"] <= found["peak_reserved_bytes"]
    assert found["driver_ns"] > 0
    assert found["driver_calls"][used] > 0 == found["driver_calls"][unused]


def test_a_training_that_runs_out_of_memory_says_so_and_in_which_step(tmp_path: Path) -> None:
    found = train("frugal", tmp_path, capacity_bytes=8 << 20)
    assert (found["outcome"], found["steps_done"]) == ("out_of_memory", 0)
    assert "out of memory" in found["problem"] and "\n" not in found["problem"]


@pytest.mark.parametrize("allocator", ["frugal", "native"])
def test_the_allocator_counts_its_driver_calls_as_the_gpu_does(allocator: str) -> None:
    counted, by_the_gpu = json.loads(run("-c", COUNTS, allocator).splitlines()[-1])
    if allocator == "frugal":
        assert counted.pop("ns") > 0
        # The GPU counts the two handles, too, with which ours tries virtual memory at first, and what PyTorch calls.
        assert counted["create"] == by_the_gpu["create"] - 2 > 0
        assert counted["unmap"] == by_the_gpu["unmap"] - 2 > 0
        assert counted["malloc"] == counted["free"] == 0
    else:
        assert counted == {kind: by_the_gpu[kind] for kind in ("malloc", "free")}
        assert counted["malloc"] == counted["free"] > 0

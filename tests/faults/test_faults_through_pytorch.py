"""Driver calls fail below PyTorch, on the simulated GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import frugal_alloc

HERE = Path(__file__).parent
# Of each kind of call and each error; more with FRUGAL_FAULTS_CALLS.
CALLS = os.environ.get("FRUGAL_FAULTS_CALLS", "3")
SEED = os.environ.get("FRUGAL_TEST_SEED", "1")


def run(program: str, folder: Path) -> dict:
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", "1GiB", "--"]
    environment = os.environ | {"PYTHONPATH": str(Path(frugal_alloc.__file__).parents[1])}
    done = subprocess.run(
        [*simulate, sys.executable, str(HERE / program), CALLS, SEED],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("RESULTS")[1])


def test_user_sees_out_of_memory_or_nothing_and_loses_nothing(tmp_path: Path) -> None:
    figures = run("faulted_memory.py", tmp_path)
    print(
        f"COUNTS through PyTorch, seed {SEED}: {figures['faults']} faults in {figures['operations']} requests of "
        f"{figures['turns']} turns; {figures['out_of_memory']} times out of memory"
    )
    assert figures["seen"] == {}
    assert figures["faults"] >= 0.9 * figures["turns"] > 0


def test_run_starts_as_ever_whichever_call_fails_once(tmp_path: Path) -> None:
    figures = run("faulted_start.py", tmp_path)
    print(f"COUNTS of starting, seed {SEED}: {figures['faults']} faults in {figures['processes']} processes")
    assert figures["other"] == {}
    assert figures["expected"]["seen"]["ours"] == [True] * 4
    assert figures["expected"]["seen"]["virtual_memory"] == 1
    assert figures["faults"] >= 0.9 * figures["processes"] > 0

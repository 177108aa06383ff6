"""What `tools/acceptance --faults` does to PyTorch's tests, done to a few of our own on the simulated GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import frugal_alloc

HERE = Path(__file__).resolve().parent
RUNS = os.environ.get("FRUGAL_FAULTS_RUNS", "40")
SEED = os.environ.get("FRUGAL_TEST_SEED", "1")
NAMES = [
    f"Ordinary.test_{name}"
    for name in (
        "figures_are_those_of_the_tensors",
        "empty_cache_gives_all_back",
        "snapshot_and_statistics_agree",
        "memory_of_another_stream_is_used_in_order",
        "graph_can_be_captured_and_replayed",
        "full_device_raises_and_recovers",
        "fraction_holds",
    )
]


def reports(*names: str, runs: str = RUNS) -> list[dict]:
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", "2GiB", "--"]
    done = subprocess.run(
        [*simulate, sys.executable, str(HERE / "fail_calls.py"), runs, SEED, *names],
        env=os.environ | {"PYTHONPATH": str(Path(frugal_alloc.__file__).parents[1]), "FRUGAL_SIM_ORDER": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("REPORTS")[1])


def test_programs_do_not_notice_that_one_driver_call_failed() -> None:
    all_reports = reports(*NAMES)
    faults = sum(report["faults"] for report in all_reports)
    runs = sum(report["runs"] for report in all_reports)
    print(f"COUNTS programs, seed {SEED}: {faults} faults in {runs} runs of {len(NAMES)} tests")
    assert [(r["test"], r["reason"]) for r in all_reports if r["outcome"] != "passed"] == []
    assert faults > 0.8 * runs > 0


def test_what_a_failing_call_breaks_is_found() -> None:
    own_calls, kept = reports(
        "Unsound.test_makes_driver_calls_of_its_own", "Unsound.test_keeps_a_tensor_each_time", runs="5"
    )
    assert own_calls["outcome"] == kept["outcome"] == "faulted"
    assert "driver.memory_info@1=" in own_calls["reason"]
    assert "held afterwards: " in kept["reason"]

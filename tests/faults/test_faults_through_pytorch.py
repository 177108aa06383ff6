"""Driver calls fail below PyTorch, on the simulated GPU."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import fork_server
import simulated_gpu

HERE = Path(__file__).parent
# Of each kind of call and each error; more with FRUGAL_FAULTS_CALLS.
CALLS = os.environ.get("FRUGAL_FAULTS_CALLS", "3")
SEED = os.environ.get("FRUGAL_TEST_SEED", "1")
# Of sleep at random; more with FRUGAL_SLEEP_ROUNDS.
ROUNDS = os.environ.get("FRUGAL_SLEEP_ROUNDS") or ("60" if os.environ.get("FRUGAL_TEST_ALL") == "1" else "12")


def run(program: str, folder: Path, *arguments: str, values: str = "none") -> dict:
    command = [sys.executable, str(HERE / program), CALLS, SEED, *arguments]
    return results(command, simulated_gpu.environment(1 << 30, values=values), folder)


def results(command: list[str], environment: dict[str, str], folder: Path) -> dict:
    done = fork_server.run(command, env=environment, cwd=folder, timeout=1800)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("RESULTS")[1])


def test_user_sees_out_of_memory_or_nothing_and_loses_nothing(tmp_path: Path) -> None:
    figures = run("faulted_memory.py", tmp_path)
    print(
        f"COUNTS through PyTorch, seed {SEED}: {figures['faults']} faults in {figures['operations']} requests of "
        f"{figures['iterations']} iterations; {figures['out_of_memory']} times out of memory"
    )
    assert figures["seen"] == {}
    assert figures["faults"] >= 0.9 * figures["iterations"] > 0


def test_run_starts_as_ever_whichever_call_fails_once(tmp_path: Path) -> None:
    figures = run("faulted_start.py", tmp_path, "once")
    print(f"COUNTS of starting, seed {SEED}: {figures['faults']} faults in {figures['processes']} processes")
    assert figures["other"] == {}
    assert figures["expected"]["seen"]["ours"] == [True] * 4
    assert figures["expected"]["seen"]["virtual_memory"] == 1
    assert figures["faults"] >= 0.9 * figures["processes"] > 0


def test_run_goes_on_or_is_out_of_memory_when_a_driver_goes_on_failing(tmp_path: Path) -> None:
    figures = run("faulted_start.py", tmp_path, "on")
    print(f"COUNTS of starting, seed {SEED}: {figures['faults']} faults in {figures['processes']} processes, for good")
    ours = figures["expected"]["seen"]
    told = 0
    for plan, facts in figures["other"].items():
        seen = facts["seen"]
        if isinstance(seen, str):
            # A GPU that cannot be opened cannot be used by PyTorch's allocator either.
            is_of_opening = plan.startswith("driver.context") and seen.startswith("RuntimeError: frugal_alloc: cu")
            assert is_of_opening or seen.startswith("OutOfMemoryError"), plan
            continue
        told += 1
        assert len(facts["warned"]) == 1, plan
        assert "the driver " in facts["warned"][0], plan
        assert seen["allocated"][1] == 0, plan
        assert seen["allocated"][0] >= ours["allocated"][0], plan
        assert seen["reserved"] <= facts["used"], plan
    assert told > 0


def test_all_memory_sleeps_or_none_and_nothing_is_lost_whichever_call_fails(tmp_path: Path) -> None:
    figures = run("faulted_sleep.py", tmp_path, values="cpu")
    print(f"COUNTS of sleeping, seed {SEED}: {figures['faults']} faults in {figures['tries']} tries")
    assert figures["wrong"] == {}
    assert figures["faults"] >= 0.9 * figures["tries"] > 0


def test_rounds_of_sleep_at_random_hurt_nobody_who_is_awake(tmp_path: Path) -> None:
    environment = simulated_gpu.environment(1 << 30, gpus=2, values="cpu")
    environment |= {"FRUGAL_SIM_ORDER": "1", "FRUGAL_SIM_WORKSPACES": "modelled"}
    # Whose violations end the program with a status of its own.
    figures = results([sys.executable, str(HERE / "random_sleep.py"), ROUNDS, SEED], environment, tmp_path)
    print(
        f"COUNTS of {ROUNDS} rounds of sleep, seed {SEED}: {figures['faults']} faults, {figures['failures']} calls "
        f"failed; libraries were given {figures['workspaces']} workspaces"
    )
    assert figures["wrong"] == {}
    assert figures["failures"] > 0 and figures["workspaces"] > 0

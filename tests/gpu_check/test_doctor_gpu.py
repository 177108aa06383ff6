"""``frugal-alloc doctor --gpu``: words, JSON and costs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from frugal_alloc._command import doctor_gpu
from frugal_alloc._gpu_check.results import Results, StepResult
from frugal_alloc._gpu_check.steps import STEPS
from gpu_check_run import ROOT, Outcome, environment, run

COST = re.compile(r"^ *X\((\w+), ([\d']+),", re.M)


def doctor(*arguments: str | Path) -> Outcome:
    return run(sys.executable, "-m", "frugal_alloc", "doctor", *arguments, env=environment())


@pytest.fixture(scope="module")
def examined() -> Outcome:
    return doctor("--gpu", "--json")


def test_on_the_simulated_gpu_nothing_is_measured(examined: Outcome) -> None:
    assert examined.status == 0, examined
    found = json.loads(examined.out)
    assert found["verdict"] == "nothing was measured: this is the simulated GPU"
    assert {finding["good"] for finding in found["findings"]} == {None}
    assert found["driver_costs"]["measured"] is False


def test_costs_on_the_simulated_gpu_are_those_of_its_model_by_the_same_names(examined: Outcome) -> None:
    table = COST.findall((ROOT / "allocator" / "port" / "driver_cost_table.h").read_text())
    model = {name: int(nanoseconds.replace("'", "")) / 1000 for name, nanoseconds in table}
    found = json.loads(examined.out)["driver_costs"]["microseconds"]
    assert found == pytest.approx(model, abs=0.01)


def test_what_was_not_measured_is_not_kept(tmp_path: Path) -> None:
    kept = doctor("--gpu", "--keep", tmp_path / "costs")
    assert kept.status == 2
    assert kept.err.count("\n") == 1
    assert "nothing was measured" in kept.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("--keep", "costs"), ("--gpu", "--keep", "/nowhere/costs")])
def test_arguments_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    doctor(*arguments).assert_refused()


def _judged(found: Results) -> tuple[str, bool]:
    findings = [doctor_gpu._finding(result, simulated=False) for result in found.steps]
    return doctor_gpu._verdict(found, findings), doctor_gpu._is_safe(found, findings)


def test_calls_that_wait_for_work_are_slow_and_safe() -> None:
    found = _examination(driver_costs="failed", aliasing="passed", lifetimes="passed")
    (waits,) = (result for result in found.steps if result.step.name == "driver_costs")
    waits.checks = [{"name": "unmap does not wait for work that runs", "outcome": "failed", "said": "200000 µs"}]
    assert _judged(found) == ("safe here, but slow: calls that remap memory wait for running work", True)
    waits.checks.append({"name": "latencies", "outcome": "failed", "said": "cuMemMap fails"})
    assert _judged(found) == ("not safe here: costs and waits", False)


def _examination(**outcomes: str) -> Results:
    where = {"simulated": False, "gpu": "a GPU", "memory_bytes": 1 << 34, "driver": "1.2", "driver_for_cuda": "13.0"}
    found = Results(where | {"software": {"torch": "2.11"}}, {})
    for step in STEPS:
        if step.name in outcomes:
            found.steps.append(StepResult(step, outcomes[step.name], checks=[]))
    return found


@pytest.mark.parametrize(
    "outcomes, verdict",
    [
        ({"driver_costs": "passed", "aliasing": "passed", "lifetimes": "passed"}, "safe here"),
        ({"driver_costs": "passed", "aliasing": "failed", "lifetimes": "passed"}, "not safe here: aliasing, order"),
        ({"driver_costs": "passed", "lifetimes": "not reached"}, "not safe here: careless streams"),
    ],
)
def test_verdict_names_what_is_not_safe(outcomes: dict[str, str], verdict: str) -> None:
    assert _judged(_examination(**outcomes)) == (verdict, verdict == "safe here")


def test_kept_costs_say_where_they_were_measured(tmp_path: Path) -> None:
    doctor_gpu._keep(tmp_path / "costs", _examination(), {"map": 2.0})
    lines = (tmp_path / "costs").read_text().splitlines()
    assert lines[0].startswith("# Measured by")
    assert lines[1] == "# a GPU, 16.00 GiB, driver 1.2 for CUDA 13.0, torch 2.11"
    assert lines[2:] == ["map 2.000"]

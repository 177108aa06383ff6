"""``frugal-alloc doctor --gpu``: words, JSON and costs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from frugal_alloc._command.doctor import gpu as doctor_gpu
from frugal_alloc._command.doctor.results import Results, StepResult
from frugal_alloc._command.doctor.step import DOCTORS
from frugal_alloc._common.messages import Refused
from gpu_check_run import GIB, PACKAGES, ROOT, TESTS, WHERE, Outcome, carry_out_simulated, environment, run
from hardware import kit

UNKNOWN = "unknown, since not all could be asked"
ORDER = "aliasing, order"
COST = re.compile(r"^ *X\((\w+), ([\d']+),", re.M)
STEPS = {step.name: step for step in kit.STEPS}


def doctor(*arguments: str | Path) -> Outcome:
    return run(sys.executable, "-m", "frugal_alloc", "doctor", *arguments, env=environment())


def test_on_the_simulated_gpu_nothing_is_measured_and_costs_are_its_models() -> None:
    examined = doctor("--gpu", "--json")
    assert examined.status == 0, examined
    found = json.loads(examined.out)
    assert found["verdict"] == "nothing was measured: this is the simulated GPU"
    assert {finding["good"] for finding in found["findings"]} == {None}
    assert found["driver_costs"]["measured"] is False
    table = COST.findall((ROOT / "allocator" / "port" / "driver_cost_table.h").read_text())
    model = {name: int(nanoseconds.replace("'", "")) / 1000 for name, nanoseconds in table}
    assert found["driver_costs"]["microseconds"] == pytest.approx(model, abs=0.01)


@pytest.mark.parametrize("arguments", [("--keep", "costs"), ("--gpu", "--keep", "/nowhere/costs")])
def test_arguments_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    doctor(*arguments).assert_refused()


# --- What is concluded.


def _examination(**outcomes: str) -> Results:
    found = Results(dict(WHERE), {})
    found.steps += [StepResult(step, outcomes[step.name]) for step in DOCTORS if step.name in outcomes]
    return found


def _judged(found: Results) -> tuple[str, int]:
    """The verdict and the exit status."""
    return doctor_gpu._verdict(found, [doctor_gpu._finding(result, simulated=False) for result in found.steps])


@pytest.mark.parametrize(
    "outcomes, judged",
    [
        ({"driver_costs": "passed", "aliasing": "passed", "lifetimes": "passed"}, ("safe here", 0)),
        ({"driver_costs": "passed", "aliasing": "failed", "lifetimes": "passed"}, (f"not safe here: {ORDER}", 1)),
        ({"driver_costs": "passed", "aliasing": "unknown", "lifetimes": "passed"}, (f"{UNKNOWN}: {ORDER}", 2)),
        ({"driver_costs": "unknown", "aliasing": "failed"}, (f"not safe here: {ORDER}", 1)),
        ({"driver_costs": "passed", "lifetimes": "not reached"}, (f"{UNKNOWN}: careless streams", 2)),
    ],
)
def test_verdict_names_what_is_not_safe_and_what_is_unknown(outcomes: dict[str, str], judged: tuple[str, int]) -> None:
    assert _judged(_examination(**outcomes)) == judged


def test_calls_that_wait_for_work_are_slow_and_safe() -> None:
    found = _examination(driver_costs="failed", aliasing="passed", lifetimes="passed")
    waits = found.steps[0]
    waits.checks = [{"name": "unmap does not wait for work that runs", "outcome": "failed", "said": "200000 µs"}]
    assert _judged(found) == ("safe here, but slow: calls that remap memory wait for running work", 0)
    waits.checks.append({"name": "latencies", "outcome": "failed", "said": "cuMemMap fails"})
    assert _judged(found) == ("not safe here: costs and waits", 1)


def test_step_that_all_programs_failed_or_that_broke_off_says_nothing_of_the_gpu() -> None:
    found = _examination(aliasing="failed", lifetimes="skipped")
    order, streams = found.steps
    order.broke_off, order.said = True, "ModuleNotFoundError: no such module"
    streams.checks = [{"name": "a program", "outcome": "skipped", "said": "it fails with every allocator"}]
    assert _judged(found) == (f"{UNKNOWN}: {ORDER}, careless streams", 2)


def test_gpu_on_which_nothing_is_mapped_is_safe() -> None:
    found = _examination(aliasing="skipped", lifetimes="passed")
    found.steps[0].said = "this GPU has no virtual memory management"
    assert _judged(found) == ("safe here", 0)


# --- What keeps it from asking.


@pytest.mark.parametrize("name", ["aliasing", "full_device"])
def test_without_nvrtc_nothing_is_said_of_the_gpu(name: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from frugal_alloc._simulation import nvrtc_files\n"
        "from frugal_alloc._command.doctor import kernels\n"
        "nvrtc_files.find, kernels._SYSTEM = (lambda packages: ()), ()\n"
    )
    result = carry_out_simulated(tmp_path, STEPS[name], 2 * GIB, PYTHONPATH=f"{tmp_path}:{PACKAGES}:{TESTS}")
    assert result.outcome == "unknown" and not result.checks_that("failed"), result
    assert "no libnvrtc.so" in str(result.checks)
    if name in doctor_gpu._MEANING:
        finding = doctor_gpu._finding(result, simulated=True)
        assert (finding.good, finding.unknown) == (None, True)
        assert finding.said.count("nvidia-cuda-nvrtc") == 1


@pytest.mark.parametrize("name", ["driver_costs", "lifetimes"])
def test_where_others_have_all_memory_nothing_is_said_of_the_gpu(name: str, tmp_path: Path) -> None:
    left = (512 << 20) + (3 << 20)  # beside the driver's own
    result = carry_out_simulated(tmp_path, STEPS[name], left, is_ours_alone=False)
    assert result.outcome == "unknown", result
    assert re.search("out of memory|too much of what is left", str(result.checks))


# --- What is kept.


def test_kept_costs_say_where_they_were_measured_and_what_was_not_measured_is_not_kept(tmp_path: Path) -> None:
    found = _examination()
    doctor_gpu._keep(tmp_path / "costs", found, {"map": 2.0})
    lines = (tmp_path / "costs").read_text().splitlines()
    assert lines[0].startswith("# Measured by")
    assert lines[1:] == ["# a GPU, 16.00 GiB, driver 1.2 for CUDA 13.0, torch 2.11", "map 2.000"]
    with pytest.raises(Refused, match="could not be measured"):
        doctor_gpu._keep(tmp_path / "none", found, {})
    found.where["simulated"] = True
    with pytest.raises(Refused, match="nothing was measured"):
        doctor_gpu._keep(tmp_path / "none", found, {"map": 2.0})
    assert not (tmp_path / "none").exists()

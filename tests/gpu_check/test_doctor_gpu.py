"""``frugal-alloc doctor --gpu``: words, JSON and costs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from frugal_alloc._command.doctor import gpu as doctor_gpu
from frugal_alloc._command.doctor import machine
from frugal_alloc._command.doctor.results import Results, StepResult
from frugal_alloc._command.doctor.runner import Runner
from frugal_alloc._command.doctor.steps import DOCTORS
from frugal_alloc._common.messages import Refused
from frugal_alloc._simulation import simulated_gpu
from gpu_check_run import PACKAGES, ROOT, TESTS, Outcome, environment, run
from hardware.steps import of

UNKNOWN = "unknown, since not all could be asked"
ORDER = "aliasing, order"
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


@pytest.mark.parametrize("arguments", [("--keep", "costs"), ("--gpu", "--keep", "/nowhere/costs")])
def test_arguments_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    doctor(*arguments).assert_refused()


def _judged(found: Results) -> tuple[str, int]:
    """The verdict and the exit status."""
    findings = [doctor_gpu._finding(result, simulated=False) for result in found.steps]
    return doctor_gpu._verdict(found, findings), doctor_gpu._status(found, findings)


def test_calls_that_wait_for_work_are_slow_and_safe() -> None:
    found = _examination(driver_costs="failed", aliasing="passed", lifetimes="passed")
    (waits,) = (result for result in found.steps if result.step.name == "driver_costs")
    waits.checks = [{"name": "unmap does not wait for work that runs", "outcome": "failed", "said": "200000 µs"}]
    assert _judged(found) == ("safe here, but slow: calls that remap memory wait for running work", 0)
    waits.checks.append({"name": "latencies", "outcome": "failed", "said": "cuMemMap fails"})
    assert _judged(found) == ("not safe here: costs and waits", 1)


def _examination(**outcomes: str) -> Results:
    where = {"simulated": False, "gpu": "a GPU", "memory_bytes": 1 << 34, "driver": "1.2", "driver_for_cuda": "13.0"}
    found = Results(where | {"software": {"torch": "2.11"}}, {})
    for step in DOCTORS:
        if step.name in outcomes:
            found.steps.append(StepResult(step, outcomes[step.name], checks=[]))
    return found


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


@pytest.fixture
def without_nvrtc(tmp_path: Path) -> str:
    """PYTHONPATH of a Python that finds no NVRTC."""
    (tmp_path / "sitecustomize.py").write_text(
        "from frugal_alloc._simulation import nvrtc_files\n"
        "from frugal_alloc._command.doctor import nvrtc\n"
        "nvrtc_files.find, nvrtc._SYSTEM = (lambda packages: ()), ()\n"
    )
    return f"{tmp_path}:{PACKAGES}:{TESTS}"


@pytest.mark.parametrize("name", ["aliasing", "full_device"])
def test_without_nvrtc_nothing_is_said_of_the_gpu(name: str, without_nvrtc: str, tmp_path: Path) -> None:
    result = _carried_out(name, tmp_path, 2 << 30, PYTHONPATH=without_nvrtc)
    assert result.outcome == "unknown", result
    assert not [check for check in result.checks if check["outcome"] == "failed"]
    assert "no libnvrtc.so" in str(result.checks)
    if name in doctor_gpu._MEANING:
        finding = doctor_gpu._finding(result, simulated=True)
        assert (finding.good, finding.unknown) == (None, True)
        assert finding.said.count("nvidia-cuda-nvrtc") == 1


@pytest.mark.parametrize("name", ["driver_costs", "lifetimes"])
def test_where_others_have_all_memory_nothing_is_said_of_the_gpu(name: str, tmp_path: Path) -> None:
    left = (512 << 20) + (3 << 20)  # beside the driver's own
    result = _carried_out(name, tmp_path, left, alone=False)
    assert result.outcome == "unknown", result
    assert re.search("out of memory|too much of what is left", str(result.checks))


def _carried_out(name: str, folder: Path, memory: int, alone: bool = True, **changed: str) -> StepResult:
    """A step on the simulated GPU, as a run has it carried out."""
    out = machine.prepare(folder / "out")
    child = simulated_gpu.environment(memory, base=machine.environment(out, environment(**changed)))
    found = Results({"simulated": True, "virtual_memory": True, "is_ours_alone": alone}, {})
    Runner(out, child, found, lambda line: None).run_part([step for step in of("all") if step.name == name], 300)
    return found.steps[0]


def test_kept_costs_say_where_they_were_measured_and_what_was_not_measured_is_not_kept(tmp_path: Path) -> None:
    found = _examination()
    doctor_gpu._keep(tmp_path / "costs", found, {"map": 2.0})
    lines = (tmp_path / "costs").read_text().splitlines()
    assert lines[0].startswith("# Measured by")
    assert lines[1] == "# a GPU, 16.00 GiB, driver 1.2 for CUDA 13.0, torch 2.11"
    assert lines[2:] == ["map 2.000"]
    with pytest.raises(Refused, match="could not be measured"):
        doctor_gpu._keep(tmp_path / "none", found, {})
    found.where["simulated"] = True
    with pytest.raises(Refused, match="nothing was measured"):
        doctor_gpu._keep(tmp_path / "none", found, {"map": 2.0})
    assert not (tmp_path / "none").exists()

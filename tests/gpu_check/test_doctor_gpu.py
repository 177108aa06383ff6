"""``frugal-alloc doctor --gpu``: words, JSON, costs and exit statuses."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import simulated_gpu
from frugal_alloc._command.doctor import driver, gpu, machine
from frugal_alloc._command.doctor.costs import slope, to_text
from frugal_alloc._command.doctor.gpu import PROBES, Examined
from frugal_alloc._common.messages import Refused
from gpu_check_run import GIB, ROOT, WHERE, Outcome, environment, run

UNKNOWN = "unknown, since not all could be asked"
ORDER, STREAMS = "aliasing, order", "careless streams"
COST = re.compile(r"^ *X\((\w+), ([\d']+),", re.M)
CHECKED = re.compile(r"the order of (\d+) accesses was checked, (\d+) violations")


def doctor(*arguments: str | Path, **changed: str) -> Outcome:
    return run(sys.executable, "-m", "frugal_alloc", "doctor", *arguments, env=environment(**changed))


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
    checks = [check for step in found["steps"] for check in step["checks"]]
    assert len(checks) > 20 and {check["outcome"] for check in checks} <= {"passed", "not shown here", "skipped"}
    assert {figure["value"] for step in found["steps"] for figure in step["figures"]} == {None}


def test_work_of_a_probe_is_in_order() -> None:
    """What the probes find wrong on hardware is the hardware's."""
    started = simulated_gpu.environment(4 * GIB, base=environment(FRUGAL_SIM_ORDER="1"))
    done = run(
        "sh", "-c", f"{sys.executable} -m frugal_alloc._command.doctor.probe aliasing 30 $$; exit $?", env=started
    )
    assert done.status == 0 and '"failed"' not in done.out, done
    found = CHECKED.search(done.err)
    assert found and (int(found[1]) > 0, int(found[2])) == (True, 0)


@pytest.mark.parametrize("arguments", [("--keep", "costs"), ("--gpu", "--keep", "/nowhere/costs")])
def test_arguments_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    doctor(*arguments).assert_refused()


# --- What is concluded.


def _line(outcome: str, name: str = "it", said: str = "so") -> dict[str, Any]:
    return {"name": name, "outcome": outcome, "said": said}


def _judged(costs: str = "passed", order: str = "passed", streams: str = "passed", **changed: Any) -> tuple[str, int]:
    """The verdict and the exit status."""
    examined = [
        Examined(probe, 0, "", [_line(outcome)] if outcome else [])
        for probe, outcome in zip(PROBES, (costs, order, streams), strict=True)
    ]
    for name, value in changed.items():
        setattr(examined[1], name, value)
    return gpu.verdict(WHERE, [gpu.finding(each, WHERE) for each in examined])


@pytest.mark.parametrize(
    ("outcomes", "judged"),
    [
        ({}, ("safe here", 0)),
        ({"order": "failed"}, (f"not safe here: {ORDER}", 1)),
        ({"order": "unknown"}, (f"{UNKNOWN}: {ORDER}", 2)),
        ({"costs": "unknown", "order": "failed"}, (f"not safe here: {ORDER}", 1)),
        ({"streams": ""}, (f"{UNKNOWN}: {STREAMS}", 2)),
        # It fails with every allocator.
        ({"streams": "skipped"}, (f"{UNKNOWN}: {STREAMS}", 2)),
        # A fault is the GPU's; how else a process ends says nothing of it.
        ({"status": -signal.SIGSEGV}, (f"not safe here: {ORDER}", 1)),
        ({"status": -signal.SIGKILL}, (f"{UNKNOWN}: {ORDER}", 2)),
        ({"status": 1, "last_line": "ModuleNotFoundError: none"}, (f"{UNKNOWN}: {ORDER}", 2)),
        ({"status": None}, (f"{UNKNOWN}: {ORDER}", 2)),
        ({"order": "failed", "status": None}, (f"not safe here: {ORDER}", 1)),
    ],
)
def test_verdict_names_what_is_not_safe_and_what_is_unknown(outcomes: dict[str, Any], judged: tuple[str, int]) -> None:
    assert _judged(**outcomes) == judged


def test_calls_that_wait_for_work_are_slow_and_safe() -> None:
    waits = Examined(PROBES[0], 0, "", [_line("failed", "unmap does not wait for work that runs", "200000 µs")])
    slow = "safe here, but slow: calls that remap memory wait for running work"
    assert gpu.verdict(WHERE, [gpu.finding(waits, WHERE)]) == (slow, 0)
    waits.lines.append(_line("failed", "latencies", "cuMemMap fails"))
    assert gpu.verdict(WHERE, [gpu.finding(waits, WHERE)]) == ("not safe here: costs and waits", 1)


def test_gpu_on_which_nothing_is_mapped_is_safe() -> None:
    without = WHERE | {"virtual_memory": False}
    found = gpu.finding(Examined(PROBES[1], None, "no virtual memory management", []), without)
    assert (found.good, found.said) == (True, "no virtual memory management")


# --- What keeps it from asking.


def test_without_cuda_bindings_nothing_is_said_of_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "__init__.py").touch()
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    examined = doctor("--gpu", PYTHONPATH=path)
    assert examined.status == 2, examined
    assert "pip install 'cuda-bindings==13.*'" in examined.out and UNKNOWN in examined.out


@pytest.mark.parametrize("probe", [PROBES[0], PROBES[2]], ids=lambda probe: probe.name)
def test_where_others_have_all_memory_nothing_is_said_of_the_gpu(probe: gpu.Probe) -> None:
    left = (512 << 20) + (3 << 20)  # beside the driver's own
    found = gpu.carry_out(probe, simulated_gpu.environment(left, base=environment()))
    assert found.with_outcome("unknown") and not found.with_outcome("failed"), found
    assert gpu.finding(found, WHERE).unknown


def test_torch_without_cuda_is_named(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.11.0+cpu'\ncuda = None\nhip = None\n")
    assert "CUDA" in doctor("--gpu", PYTHONPATH=f"{tmp_path}:{environment()['PYTHONPATH']}").assert_refused()


def test_without_a_gpu_and_without_the_simulated_one_it_says_so(tmp_path: Path) -> None:
    assert str(tmp_path) in doctor("--gpu", FRUGAL_SIM_LIBRARIES=str(tmp_path)).assert_refused()


def test_gpu_that_does_not_answer_is_not_measured() -> None:
    started = simulated_gpu.environment(2 * GIB, base=environment(FRUGAL_SIM_FAULTS="memory_info@1+=out_of_memory"))
    said = run(sys.executable, "-m", "frugal_alloc", "doctor", "--gpu", env=started).assert_refused()
    assert "cuMemGetInfo_v2 fails with CUDA_ERROR_OUT_OF_MEMORY" in said
    assert "nvidia-smi" in said


def test_driver_older_than_the_cuda_of_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"problem": None, "has_driver": True, "software": {"cuda": "13.0"}}
    monkeypatch.setattr(machine, "described", lambda _: found)
    found["driver_for_cuda"] = "12.9"
    with pytest.raises(Refused, match=r"driver is for CUDA 12\.9, and this torch for CUDA 13\.0"):
        machine.find()
    # Of the same major version it may be the older one.
    found["driver_for_cuda"] = "13.0"
    machine.find()


# --- Costs, and what is kept of them.


def test_costs_are_a_line_through_what_was_measured_as_the_policy_reads_them() -> None:
    assert slope([(2.0, 29.0), (20.0, 65.0), (64.0, 153.0)]) == pytest.approx((25.0, 2.0))
    text = to_text({"map": 2.0, "set_access": 37.25}, "Measured here.\nOn a GPU.")
    assert text == "# Measured here.\n# On a GPU.\nmap 2.000\nset_access 37.250\n"


def test_kept_costs_say_where_they_were_measured_and_what_was_not_measured_is_not_kept(tmp_path: Path) -> None:
    gpu.keep_costs(tmp_path / "costs", WHERE, {"map": 2.0})
    lines = (tmp_path / "costs").read_text().splitlines()
    assert lines[0].startswith("# Measured by")
    assert lines[1:] == ["# a GPU, 16.00 GiB, driver 1.2 for CUDA 13.0, torch 2.11", "map 2.000"]
    with pytest.raises(Refused, match="could not be measured"):
        gpu.keep_costs(tmp_path / "none", WHERE, {})
    with pytest.raises(Refused, match="nothing was measured"):
        gpu.keep_costs(tmp_path / "none", WHERE | {"simulated": True}, {"map": 2.0})
    assert not (tmp_path / "none").exists()


# --- The kernels.


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
def test_kernels_compile_to_the_machines_code(capability: tuple[int, int]) -> None:
    files = [*driver.KERNELS.glob("*.cu"), *(ROOT / "tests" / "hardware" / "kernels").glob("*.cu")]
    assert len(files) == 4
    for file in files:
        assert driver.compiled(file, capability).startswith(b"\x7fELF")


def test_gpu_that_is_newer_than_the_compiler_gets_ptx_and_what_does_not_compile_is_named(tmp_path: Path) -> None:
    assert b".entry spin" in driver.compiled(driver.KERNELS / "timing.cu", (99, 0))
    (tmp_path / "wrong.cu").write_text("__global__ void f() { undefined(); }")
    with pytest.raises(driver.CannotTell, match=r"wrong\.cu does not compile for sm_90: .*undefined"):
        driver.compiled(tmp_path / "wrong.cu", (9, 0))


# --- A driver that does not do all that it says.


@pytest.mark.parametrize(
    ("faults", "export"),
    [
        ("", (True, True)),
        ("create@1=not_permitted", (True, False)),
        ("create@1=not_permitted,create@2=not_permitted", (False, True)),
        ("set_access@1=unknown", (True, False)),
        # A full device says nothing.
        ("create@1=out_of_memory", (True, True)),
    ],
)
def test_memory_is_asked_for_as_the_driver_grants_it(faults: str, export: tuple[bool, bool]) -> None:
    # The simulated GPU does not say that network cards can have its memory.
    code = "from frugal_alloc._command.doctor import driver\ndriver.Driver.attribute = lambda *_: 1\n"
    code += "with driver.opened_gpu() as gpu: print(*gpu.export)"
    started = simulated_gpu.environment(GIB, base=environment(FRUGAL_SIM_FAULTS=faults))
    done = run(sys.executable, "-c", code, env=started)
    assert done.out.split() == [str(each) for each in export], done

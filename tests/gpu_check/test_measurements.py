"""What the steps that only measure say: of mappings, remapping, supply and limits; and that their work is in order."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor import driver_costs
from frugal_alloc._command.doctor.step import Step
from frugal_alloc._simulation import simulated_gpu
from gpu_check_run import GIB, carry_out_simulated, environment, run
from hardware import kit, mappings, remapping, view_limit

PARTS = [mappings.UNMAP_PART.format(place) for place in mappings.PLACES]
# Each is said once a run, whatever the driver answers.
ANSWERS = {mappings.PREFIX, mappings.OFFSET, *PARTS, mappings.OPEN_BOTH, mappings.UNMAP_BOTH, mappings.TWICE}
RELEASED = "memory that was just released"
_RUN = """
import importlib
from pathlib import Path
from frugal_alloc._command.doctor.step import StepReport
module = importlib.import_module("{package}.{step}")
module.run(StepReport(Path("."), seconds=500, share=0.01, simulated={simulated}, fills_the_device={alone}))
"""

Said = dict[str, dict[str, Any]]


def carried_out(
    folder: Path, step: str, simulated: bool = False, alone: bool = True, package: str = "hardware", **changed: str
) -> Said:
    """Checks and figures, by their names, of a step on the simulated GPU, which it takes for a real one or not."""
    code = _RUN.format(package=package, step=step, simulated=simulated, alone=alone)
    child = simulated_gpu.environment(8 * GIB, base=environment(**changed))
    done = run(sys.executable, "-c", code, env=child, cwd=folder)
    assert done.status == 0, done.err
    found = json.loads((folder / "report.json").read_text())
    return {entry["name"]: entry for kind in ("checks", "figures") for entry in found[kind]}


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., Said]:
    return functools.partial(carried_out, tmp_path)


@pytest.fixture(scope="module")
def remapped(tmp_path_factory: pytest.TempPathFactory) -> Said:
    return carried_out(tmp_path_factory.mktemp("remapping"), "remapping")


def test_what_a_driver_answers_is_not_shown_by_the_simulated_one(said: Callable[..., Said]) -> None:
    found = said("mappings", simulated=True)
    assert {found[name]["outcome"] for name in ANSWERS} == {"not shown here"}


def test_what_a_driver_refuses_is_an_answer_and_no_failure(said: Callable[..., Said]) -> None:
    found = said("mappings")
    assert {check["outcome"] for check in found.values()} == {"passed"}
    for name in (mappings.PREFIX, mappings.OFFSET, *PARTS):
        assert found[name]["said"] == "refused: CUDA_ERROR_INVALID_VALUE"
    # The map before is of the whole handle; before that one the driver may be tried.
    faulty = [said("mappings", FRUGAL_SIM_FAULTS=f"map@{number}=invalid_value") for number in (2, 3)]
    assert all(set(found) >= ANSWERS for found in faulty)


def test_calls_are_measured_behind_a_kernel_and_a_kernel_beside_them(said: Callable[..., Said], remapped: Said) -> None:
    found = said("driver_costs", package="frugal_alloc._command.doctor")
    for call in driver_costs.BEHIND_WORK:
        assert found[f"{call} behind a kernel of 200 ms"]["unit"] == "µs"
    assert found["cost of set_access"]["value"] > 0
    assert remapped["a memory-bound kernel beside remapping ÷ alone"]["unit"] == "times"


def test_processes_remap_together_as_far_as_their_contexts_leave_room(remapped: Said) -> None:
    together = [remapped[f"map, open and unmap in each of {count} processes at once"] for count in remapping.PROCESSES]
    assert [said.get("unit") or said["outcome"] for said in together] == ["µs", "µs", "skipped", "skipped"]


def test_memory_is_taken_again_only_where_nobody_else_needs_it(said: Callable[..., Said]) -> None:
    for alone, outcome, times in ((False, "skipped", 0), (True, "passed", 3)):
        found = said("supply", alone=alone)
        assert found[RELEASED]["outcome"] == outcome
        assert len([name for name in found if name.startswith("to take")]) == times


def test_end_of_addresses_is_told_with_the_drivers_error(said: Callable[..., Said]) -> None:
    found = said("supply", alone=False, FRUGAL_SIM_ADDRESSES="1000GiB")
    reserved = found["reservations of 280 GiB that a process had at once"]
    assert (reserved["value"], reserved["said"]) == (3, "CUDA_ERROR_OUT_OF_MEMORY")


def test_limit_of_views_is_told_with_the_call_and_its_error(said: Callable[..., Said]) -> None:
    found = said("view_limit", FRUGAL_SIM_MAPPINGS="1000")
    assert found[view_limit.LIMIT]["said"] == "1000 views, then cuMemSetAccess: CUDA_ERROR_OUT_OF_MEMORY"
    assert found[view_limit.AFTER]["outcome"] == "passed"


WORKING = ("aliasing", "mappings", "placement", "remapping")
CHECKED = re.compile(r"the order of (\d+) accesses was checked, (\d+) violations")


@pytest.mark.parametrize("step", [step for step in kit.STEPS if step.name in WORKING], ids=lambda step: step.name)
def test_work_of_a_probe_is_in_order(step: Step, tmp_path: Path) -> None:
    """What the probes find wrong on hardware is the hardware's."""
    result = carry_out_simulated(tmp_path, step, 4 * GIB, FRUGAL_SIM_ORDER="1")
    assert not result.is_bad, result
    found = CHECKED.search((tmp_path / "out" / "steps" / step.name / "output.txt").read_text())
    assert found
    assert (int(found[1]) > 0, int(found[2])) == (True, 0)

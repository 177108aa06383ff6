"""What the steps that only measure say: of mappings, remapping, supply and limits, and where a run takes place."""

from __future__ import annotations

import functools
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._gpu_check import mappings, remapping, view_limit
from frugal_alloc._gpu_check.__main__ import _parse
from frugal_alloc._gpu_check.steps import BY_NAME_ONLY, STEPS, of
from frugal_alloc._simulation import simulated_gpu
from gpu_check_run import ROOT, Outcome, environment, results, run

# Each is said once a run, whatever the driver answers.
ANSWERS = {
    mappings.PREFIX,
    mappings.OFFSET,
    *(mappings.UNMAP_PART.format(place) for place in mappings.PLACES),
    mappings.OPEN_BOTH,
    mappings.UNMAP_BOTH,
    mappings.TWICE,
}
_RUN = """
import importlib
from pathlib import Path
from frugal_alloc._gpu_check.step_report import StepReport
module = importlib.import_module("frugal_alloc._gpu_check.{step}")
module.run(StepReport(Path("."), seconds=500, share=0.01, simulated={simulated}, fills_the_device={alone}))
"""


Said = dict[str, dict[str, Any]]


def carried_out(folder: Path, step: str, simulated: bool = False, alone: bool = True, **changed: str) -> Said:
    """Checks and figures, by their names, of a step on the simulated GPU, which it takes for a real one or not."""
    code = _RUN.format(step=step, simulated=simulated, alone=alone)
    child = simulated_gpu.environment(8 << 30, base=environment(**changed))
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
    assert set(found) >= ANSWERS
    assert {found[name]["outcome"] for name in ANSWERS} == {"not shown here"}


def test_what_a_driver_refuses_is_an_answer_and_no_failure(said: Callable[..., Said]) -> None:
    found = said("mappings")
    assert {check["outcome"] for check in found.values()} == {"passed"}
    parts = [mappings.UNMAP_PART.format(place) for place in mappings.PLACES]
    for name in (mappings.PREFIX, mappings.OFFSET, *parts):
        assert found[name]["said"] == "refused: CUDA_ERROR_INVALID_VALUE"
    # The map before is of the whole handle; before that one the driver may be tried.
    faulty = [said("mappings", FRUGAL_SIM_FAULTS=f"map@{number}=invalid_value") for number in (2, 3)]
    assert all(set(found) >= ANSWERS for found in faulty)


def test_remapping_is_measured_by_size_and_behind_and_beside_kernels(remapped: Said) -> None:
    for size in (4, 8, 16, 32):
        for call in ("set_access", "unmap"):
            names = [name for name in remapped if name.startswith(f"{call} of a handle of {size} MiB")]
            assert len(names) == 2
        assert remapped[f"create of a handle of {size} MiB"]["value"] > 0
    for call in remapping.CALLS_BY_THEMSELVES:
        assert remapped[f"{call} by itself behind a kernel of 200 ms"]["unit"] == "µs"
    assert remapped["a memory-bound kernel beside remapping ÷ alone"]["unit"] == "times"


def test_processes_remap_together_as_far_as_their_contexts_leave_room(remapped: Said) -> None:
    together = [remapped[f"map, open and unmap in each of {count} processes at once"] for count in remapping.PROCESSES]
    assert [one.get("unit") for one in together] == ["µs", "µs", None, None]
    assert [one.get("outcome") for one in together] == [None, None, "skipped", "skipped"]


def test_memory_is_taken_again_only_where_nobody_else_needs_it(said: Callable[..., Said]) -> None:
    shared, alone = said("supply", alone=False), said("supply")
    assert shared["memory that was just released"]["outcome"] == "skipped"
    assert [name for name in shared if name.startswith("to take")] == []
    assert alone["memory that was just released"]["outcome"] == "passed"
    assert len([name for name in alone if name.startswith("to take")]) == 3


def test_end_of_addresses_is_told_with_the_drivers_error(said: Callable[..., Said]) -> None:
    found = said("supply", alone=False, FRUGAL_SIM_ADDRESSES="1000GiB")[
        "reservations of 280 GiB that a process had at once"
    ]
    assert (found["value"], found["said"]) == (3, "CUDA_ERROR_OUT_OF_MEMORY")


def test_limit_of_views_is_told_with_the_call_and_its_error(said: Callable[..., Said]) -> None:
    found = said("view_limit", FRUGAL_SIM_MAPPINGS="1000")
    assert found[view_limit.LIMIT]["said"] == "1000 views, then cuMemSetAccess: CUDA_ERROR_OUT_OF_MEMORY"
    assert found[view_limit.AFTER]["outcome"] == "passed"


def test_what_starves_others_runs_by_its_name_and_alone_only(check: Callable[..., Outcome], tmp_path: Path) -> None:
    assert "--alone" in check("limits", "--out", tmp_path / "out").assert_refused()
    assert not any(step.part in BY_NAME_ONLY for step in of("all"))
    assert {step.name for step in STEPS} - {step.name for step in of("all")} == {"view_limit"}
    done = check("limits", "--alone", "--simulate", "4GiB", "--out", tmp_path / "out")
    assert done.status == 0, done
    found = results(tmp_path / "out")
    assert [step["outcome"] for step in found["steps"]] == ["not shown here"]


def test_results_say_what_the_gpu_its_driver_and_the_host_allow(check: Callable[..., Outcome], tmp_path: Path) -> None:
    check("limits", "--alone", "--simulate", "4GiB", "--out", tmp_path / "out")
    found = results(tmp_path / "out")["where"]["conditions"]
    assert found["granularity_bytes"]["least"] == 2 << 20
    assert found["attributes"]["export_to_file_descriptor"] == 1
    assert {"rdma", "rdma_with_virtual_memory", "export_to_fabric", "compute_mode", "clock_khz"} <= set(
        found["attributes"]
    )
    assert {"bar1_bytes", "mig_mode", "clock_mhz"} <= set(found["settings"])
    assert found["host"]["max_map_count"] == int(Path("/proc/sys/vm/max_map_count").read_text())
    assert "address_space_bytes" in found["host"]


def test_commands_of_the_document_are_understood_and_its_three_calls_fit_into_ten_minutes_each() -> None:
    text = (ROOT / "docs" / "gpu_check.md").read_text(encoding="utf-8")
    for command in re.findall(r"^DIR/run (.*?)(?: +#.*)?$", text, re.MULTILINE):
        _parse(shlex.split(command))
    calls = re.split(r"^# Call \d.*$", text, flags=re.MULTILINE)[1:]
    minutes = [[float(found) for found in re.findall(r"--minutes ([\d.]+)", call)] for call in calls]
    assert minutes == [[3, 6], [8.5], [6]]
    outs = re.findall(r"--out (\w+)$", "".join(calls), re.MULTILINE)
    assert len(set(outs)) == len(outs) == 4

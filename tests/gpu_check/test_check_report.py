"""What a step may call passed or measured, on a real GPU and on the simulated one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._gpu_check import __main__, costs, machine, table
from frugal_alloc._gpu_check.results import Results, StepResult
from frugal_alloc._gpu_check.runner import Runner
from frugal_alloc._gpu_check.step_report import FILE, Needs, StepReport
from frugal_alloc._gpu_check.steps import FACTS, PARTS, STEPS, Step
from frugal_alloc._gpu_check.timing import Latencies, slope


def report(folder: Path, simulated: bool) -> StepReport:
    return StepReport(folder, seconds=60, share=1.0, simulated=simulated)


def said(folder: Path, kind: str = "checks") -> list[dict[str, Any]]:
    return json.loads((folder / FILE).read_text())[kind]


@pytest.mark.parametrize("needs", [Needs.VALUES, Needs.TIME, Needs.DRIVER])
@pytest.mark.parametrize("good", [True, False])
def test_simulated_gpu_passes_and_fails_nothing_that_it_does_not_have(tmp_path: Path, needs: Needs, good: bool) -> None:
    report(tmp_path, simulated=True).check("it", good, "found", needs)
    assert [check["outcome"] for check in said(tmp_path)] == ["not shown here"]
    report(tmp_path, simulated=False).check("it", good, "found", needs)
    assert [check["outcome"] for check in said(tmp_path)] == ["passed" if good else "failed"]


def test_simulated_gpu_fails_what_needs_calls_alone(tmp_path: Path) -> None:
    report(tmp_path, simulated=True).check("it", False, "found")
    assert said(tmp_path)[0]["outcome"] == "failed"


def test_no_figure_comes_from_the_simulated_gpu(tmp_path: Path) -> None:
    simulated = report(tmp_path, simulated=True)
    simulated.detail("it", microseconds=12.0)
    simulated.figure("it", 12.0, "µs")
    assert said(tmp_path, "figures") == [{"name": "it", "value": None, "unit": "µs", "said": "not shown here"}]
    assert said(tmp_path, "details") == []


def test_costs_from_the_simulated_gpu_are_not_called_measured(tmp_path: Path) -> None:
    for simulated in (True, False):
        report(tmp_path, simulated).driver_costs({"map": 2.0})
        assert said(tmp_path, "details")[0]["measured"] is not simulated


def test_steps_of_a_part_fit_into_its_time() -> None:
    for part, most in PARTS.items():
        assert sum(step.seconds for step in STEPS if step.part == part) <= most, part


def test_names_of_steps_are_folders_of_their_own() -> None:
    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_costs_are_written_as_the_policy_reads_them() -> None:
    text = costs.to_text({"map": 2.0, "set_access": 37.25}, "Measured here.\nOn a GPU.")
    assert text == "# Measured here.\n# On a GPU.\nmap 2.000\nset_access 37.250\n"


def test_latencies_are_of_what_was_measured() -> None:
    found = Latencies.of([1000 * one for one in range(100, 0, -1)])
    assert (found.count, found.p50, found.p99, found.worst) == (100, 51.0, 100.0, 100.0)
    assert slope([(2.0, 29.0), (20.0, 65.0), (64.0, 153.0)]) == pytest.approx((25.0, 2.0))


def _results(simulated: bool, **step: Any) -> Results:
    where = {"simulated": simulated, "gpu": "a GPU", "memory_bytes": 1 << 34, "driver": None, "driver_for_cuda": "13.0"}
    software = {"torch": "2.11", "python": "3.11", "kernel": "6.1", "frugal_alloc": "0"}
    found = Results(where | {"software": software}, {})
    found.steps.append(StepResult(Step("it", "P0", FACTS, "?", "none", 1), **step))
    return found


def test_table_says_what_failed_and_why() -> None:
    checks = [{"name": "order", "outcome": "failed", "said": "3 words wrong"}]
    text = table.text(_results(False, outcome="failed", checks=checks))
    assert "order: 3 words wrong" in text
    assert text.endswith("not all passed: it\n")


def test_table_says_once_why_checks_are_unknown_and_that_not_all_could_be_asked() -> None:
    checks = [{"name": name, "outcome": "unknown", "said": "no compiler"} for name in ("one", "other")]
    found = _results(False, outcome="unknown", checks=checks)
    text = table.text(found)
    assert text.count("no compiler") == 1
    assert text.endswith("nothing failed, but not all could be asked: it\n")
    assert (found.all_passed, found.any_failed) == (False, False)


def test_step_with_a_check_that_is_unknown_is_so_unless_one_failed() -> None:
    (result,) = _results(False, outcome="failed").steps
    for outcomes, expected in ((["passed", "unknown"], "unknown"), (["unknown", "failed"], "failed")):
        result.checks = [{"name": "it", "outcome": outcome, "said": ""} for outcome in outcomes]
        result.judge(simulated=False)
        assert result.outcome == expected


@pytest.mark.parametrize(("outcome", "status"), [("passed", 0), ("failed", 1), ("unknown", 2), ("skipped", 0)])
def test_exit_status_tells_what_failed_from_what_could_not_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, status: int
) -> None:
    def ends(runner: Runner, *_: Any) -> None:
        runner._keep(_results(False, outcome=outcome).steps[0])

    monkeypatch.setattr(Runner, "run_part", ends)
    monkeypatch.setattr(machine, "find", lambda environment, _: ({}, _results(False, outcome="").where))
    assert __main__.main(["facts", "--alone", "--out", str(tmp_path / "out")]) == status


def test_table_of_a_simulated_run_says_so_at_its_beginning_and_its_end() -> None:
    lines = table.text(_results(True, outcome="passed")).splitlines()
    assert "SIMULATED" in lines[0]
    assert "need a real one" in lines[-1]


def test_table_has_the_figures_that_were_measured() -> None:
    figures = [
        {"name": "cost of map", "value": 2.5, "unit": "µs", "said": ""},
        {"name": "a figure with a longer name", "value": None, "unit": "µs", "said": "not shown here"},
    ]
    text = table.text(_results(False, outcome="passed", figures=figures))
    assert "P0  cost of map         2.5 µs\n" in text
    assert "longer" not in text

"""What a step may call passed or measured, on a real GPU and on the simulated one, and what the table makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor import costs, machine
from frugal_alloc._command.doctor.costs import Latencies, slope
from frugal_alloc._command.doctor.results import Results, StepResult
from frugal_alloc._command.doctor.runner import Runner
from frugal_alloc._command.doctor.step import Needs, Step
from gpu_check_run import WHERE, outcomes, report, said
from hardware import __main__, kit, table


@pytest.mark.parametrize("needs", [Needs.VALUES, Needs.TIME, Needs.DRIVER])
@pytest.mark.parametrize("good", [True, False])
def test_simulated_gpu_passes_and_fails_nothing_that_it_does_not_have(tmp_path: Path, needs: Needs, good: bool) -> None:
    for simulated, asked, outcome in (
        (True, needs, "not shown here"),
        (False, needs, "passed" if good else "failed"),
        (True, Needs.CALLS, "passed" if good else "failed"),
    ):
        report(tmp_path, simulated=simulated).check("it", good, "found", asked)
        assert outcomes(tmp_path) == {"it": outcome}


def test_no_figure_comes_from_the_simulated_gpu(tmp_path: Path) -> None:
    simulated = report(tmp_path, simulated=True)
    simulated.detail("it", microseconds=12.0)
    simulated.figure("it", 12.0, "µs")
    assert said(tmp_path, "figures") == [{"name": "it", "value": None, "unit": "µs", "said": "not shown here"}]
    assert said(tmp_path, "details") == []
    for is_simulated in (True, False):
        report(tmp_path, simulated=is_simulated).driver_costs({"map": 2.0})
        assert said(tmp_path, "details")[0]["measured"] is not is_simulated


@pytest.mark.parametrize(("share", "outcome"), [(0.5, "skipped"), (1.0, "failed")])
def test_what_is_cut_short_on_purpose_has_not_failed(tmp_path: Path, share: float, outcome: str) -> None:
    report(tmp_path, share=share).overrun("it")
    assert outcomes(tmp_path) == {"it": outcome}


def test_steps_have_folders_of_their_own_and_fit_into_the_time_of_their_part() -> None:
    names = [step.name for step in kit.STEPS]
    assert len(set(names)) == len(names)
    for part, most in kit.PARTS.items():
        assert sum(step.seconds for step in kit.STEPS if step.part == part) <= most, part


def test_latencies_are_of_what_was_measured_and_costs_as_the_policy_reads_them() -> None:
    found = Latencies.of([1000 * nanoseconds for nanoseconds in range(100, 0, -1)])
    assert (found.count, found.p50, found.p99, found.worst) == (100, 51.0, 100.0, 100.0)
    assert slope([(2.0, 29.0), (20.0, 65.0), (64.0, 153.0)]) == pytest.approx((25.0, 2.0))
    text = costs.to_text({"map": 2.0, "set_access": 37.25}, "Measured here.\nOn a GPU.")
    assert text == "# Measured here.\n# On a GPU.\nmap 2.000\nset_access 37.250\n"


def _results(simulated: bool, **step: Any) -> Results:
    return Results(WHERE | {"simulated": simulated}, {}, [StepResult(Step("it", "P0", 1, "?"), **step)])


def _ended(outcome: str, *names: str, why: str = "") -> dict[str, Any]:
    return {"outcome": outcome, "checks": [{"name": name, "outcome": outcome, "said": why} for name in names]}


@pytest.mark.parametrize(
    ("simulated", "step", "first", "within", "last"),
    [
        (False, _ended("passed"), "a GPU, 16.00 GiB", "passed", "all passed"),
        (False, _ended("failed", "order", why="3 wrong"), "a GPU", "order: 3 wrong", "not all passed: it"),
        (
            False,
            _ended("unknown", "a check", "another", why="no compiler"),
            "a GPU",
            "unknown: no compiler",
            "nothing failed, but not all could be asked: it",
        ),
        (True, _ended("passed"), "a GPU, 16.00 GiB; a SIMULATED GPU", "passed", "all that the simulated GPU can"),
    ],
)
def test_table_says_where_what_and_how_it_ended(
    simulated: bool, step: dict[str, Any], first: str, within: str, last: str
) -> None:
    text = table.text(_results(simulated, **step))
    assert text.startswith(first) and text.splitlines()[-1].startswith(last)
    assert within in text and text.count("no compiler") <= 1


def test_table_has_the_figures_that_were_measured() -> None:
    figures = [
        {"name": "cost of map", "value": 2.5, "unit": "µs", "said": ""},
        {"name": "a figure with a longer name", "value": None, "unit": "µs", "said": "not shown here"},
    ]
    text = table.text(_results(False, outcome="passed", figures=figures))
    assert "P0  cost of map         2.5 µs\n" in text and "longer" not in text


@pytest.mark.parametrize(("outcome", "status"), [("passed", 0), ("failed", 1), ("unknown", 2), ("skipped", 0)])
def test_exit_status_tells_what_failed_from_what_could_not_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, status: int
) -> None:
    ended = _results(False, outcome=outcome).steps
    monkeypatch.setattr(Runner, "run_part", lambda runner, *_: runner.results.steps.extend(ended))
    monkeypatch.setattr(machine, "find", lambda environment, _: (environment, WHERE | {"software": {"commit": ""}}))
    monkeypatch.setattr(machine, "json_of", lambda *_: {"others": None})
    monkeypatch.setattr(table, "text", lambda *_: "")
    assert __main__.main(["facts", "--alone", "--out", str(tmp_path / "out")]) == status

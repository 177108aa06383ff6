"""The short table at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor.results import Results, StepResult
from frugal_alloc._command.doctor.step import FAILED, OUTCOMES
from frugal_alloc._common.messages import format_bytes, on_one_line

_WIDTH = 100


def text(results: Results, rows: Path | None = None) -> str:
    """With the file of rows that a step has written, if there is one."""
    own = ["", *rows.read_text().splitlines()] if rows and rows.exists() else []
    lines = [*_where(results.where), "", *_steps(results), *_figures(results), *own, "", _verdict(results)]
    return "\n".join(lines) + "\n"


def _where(where: dict[str, Any]) -> Iterator[str]:
    software = where["software"]
    simulated = "; a SIMULATED GPU: nothing here was measured" if where["simulated"] else ""
    yield f"{where['gpu']}, {format_bytes(where['memory_bytes'])}{simulated}"
    driver = f"driver {where['driver'] or 'of unknown version'}, for CUDA {where['driver_for_cuda']}"
    yield (
        f"{driver}; torch {software['torch']}, Python {software['python']}, Linux {software['kernel']}; "
        f"frugal_alloc {software['frugal_alloc']}"
    )


def _steps(results: Results) -> Iterator[str]:
    for result in results.steps:
        step = result.step
        yield f"{step.probe:4}{step.name:18}{result.outcome:16}{result.seconds:6.0f} s  {_summary(result)}"
        for failed in result.checks_that(FAILED):
            yield on_one_line(f"      {failed}")[: 2 * _WIDTH]
        for reason in result.unknown_since:
            yield on_one_line(f"      unknown: {reason}")[: 2 * _WIDTH]


def _summary(result: StepResult) -> str:
    if result.said:
        return on_one_line(result.said)[:_WIDTH]
    counts = {outcome: len(result.checks_that(outcome)) for outcome in OUTCOMES}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)


def _figures(results: Results) -> Iterator[str]:
    found = [(result.step, figure) for result in results.steps for figure in result.figures]
    measured = [(step, figure) for step, figure in found if figure["value"] is not None]
    if measured:
        yield ""
    width = max((len(figure["name"]) for _, figure in measured), default=0)
    for step, figure in measured:
        said = f"  {figure['said']}" if figure["said"] else ""
        yield f"{step.probe:4}{figure['name']:{width}}{figure['value']:12.6g} {figure['unit']}{said}"


def _verdict(results: Results) -> str:
    if results.ended_by:
        return f"{results.ended_by}: what was found until then is above"
    if results.bad:
        return f"not all passed: {', '.join(results.bad)}"
    if results.unknown:
        return f"nothing failed, but not all could be asked: {', '.join(results.unknown)}"
    if results.where["simulated"]:
        return "all that the simulated GPU can show passed; values, faults and times need a real one"
    return "all passed"

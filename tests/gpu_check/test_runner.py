"""Steps that end badly: what they had said is kept, what they started is ended, and the others go on."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor import machine, runner
from frugal_alloc._command.doctor.results import Results
from frugal_alloc._command.doctor.runner import Runner
from frugal_alloc._command.doctor.steps import Step
from gpu_check_run import PACKAGES, environment, results

WHERE = {
    "simulated": False,
    "virtual_memory": True,
    "is_ours_alone": True,
    "gpu": "a GPU of this test",
    "memory_bytes": 1 << 34,
    "driver": "1.2",
    "driver_for_cuda": "13.0",
    "software": {"torch": "2.11.0", "python": "3.11.2", "kernel": "6.1", "frugal_alloc": "0.1.0"},
}
# What a step's run(report) does, and how it is then to be among the results.
ENDINGS = {
    "bad": ("report.check('it', False, 'not well')", ("failed", "")),
    "faults": (
        "report.check('before', True, 'said'); os.kill(os.getpid(), signal.SIGSEGV)",
        ("failed", "ended by SIGSEGV: "),
    ),
    "raises": ("raise RuntimeError('the driver is gone')", ("failed", "RuntimeError: the driver is gone")),
    "silent": ("pass", ("failed", "it ended without a word")),
    "exits": ("os._exit(7)", ("failed", "ended with status 7")),
    "starter": (
        "print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid); report.check('it', True, '')",
        ("passed", ""),
    ),
    "looks": ("report.check('it', True, open('../../results.json').read())", ("passed", "")),
}
HANGS = "report.check('before', True, 'said'); print('asleep', flush=True); signal.pause()"


def steps(folder: Path, **bodies: str) -> list[Step]:
    package = folder / "steps_of_tests"
    package.mkdir()
    for name, body in bodies.items():
        (package / f"{name}.py").write_text(f"import os, signal, subprocess\ndef run(report):\n    {body}\n")
    return [Step(name, "P0", 60, "how it ends", package=package.name) for name in bodies]


def carry_out(tmp_path: Path, wanted: list[Step], seconds: float = 60, **where: Any) -> Results:
    out = machine.prepare(tmp_path / "out")
    base = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PACKAGES}"}
    found = Results({**WHERE, **where}, {})
    Runner(out, machine.environment(out, base), found, lambda line: None, 1 / len(wanted)).run_part(wanted, seconds)
    return found


def ended(found: Results) -> dict[str, tuple[str, str]]:
    return {result.step.name: (result.outcome, result.said) for result in found.steps}


def test_each_step_ends_as_it_does_and_the_others_go_on(tmp_path: Path) -> None:
    found = carry_out(tmp_path, steps(tmp_path, **{name: body for name, (body, _) in ENDINGS.items()}))
    assert ended(found) == {name: ending for name, (_, ending) in ENDINGS.items()}
    assert not found.all_passed
    written = {step["name"]: step["checks"] for step in results(tmp_path / "out")["steps"]}
    # What a step had said before it faulted is kept.
    assert written["faults"] == [{"name": "before", "outcome": "passed", "said": "said"}]
    # Nothing that it started outlives it.
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "out" / "steps" / "starter" / "output.txt").read_text()), 0)
    # Results are whole after each step.
    seen = json.loads(written["looks"][0]["said"])
    assert [step["name"] for step in seen["steps"]] == [*ENDINGS][:-1]


def test_step_that_hangs_is_ended_at_its_limit_and_who_comes_too_late_is_not_reached(tmp_path: Path) -> None:
    found = carry_out(tmp_path, steps(tmp_path, hangs=HANGS, late="pass"), seconds=3)
    assert ended(found)["hangs"] == ("failed", "ended at its limit of 3 s")
    assert ended(found)["late"] == ("not reached", "no time was left")
    assert found.steps[0].checks[0]["said"] == "said"
    assert not found.all_passed


def test_gpu_without_virtual_memory_leaves_out_what_is_about_it(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, bad="report.check('it', False, '')")
    found = carry_out(tmp_path, [dataclasses.replace(step, needs_virtual_memory=True)], virtual_memory=False)
    assert ended(found)["bad"][0] == "skipped"
    assert found.all_passed


def test_process_that_the_driver_holds_is_said_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children, held = runner._children, 1 << 30  # no process has this number
    started = iter([()])
    monkeypatch.setattr(runner, "_children", lambda: [*children(), *next(started, (held,))])
    monkeypatch.setattr(runner, "_SECONDS_TO_DIE", 0.0)
    alone = "report.check('it', True, str(report.fills_the_device))"
    first, good = carry_out(tmp_path, steps(tmp_path, first=alone, good=alone)).steps
    assert first.outcome == "unknown"
    assert "does not end although it was killed" in first.said
    assert (good.outcome, good.said) == ("passed", "")
    # What is held keeps its memory.
    assert [result.checks[0]["said"] for result in (first, good)] == ["True", "False"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_what_was_found_and_nobody_behind(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "hardware", "facts", "--out", str(out)]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
    ) as process:
        while not process.stdout.readline().startswith("P1 live_views"):
            pass
        process.send_signal(number)
        said = process.communicate()[0]
    assert process.returncode == 128 + number
    assert "interrupted: what was found until then is above" in said
    found = results(out)
    assert found["ended_by"] == "interrupted"
    assert [(step["name"], step["said"]) for step in found["steps"]][1:] == [("live_views", "interrupted")]
    assert found["steps"][0]["checks"]
    assert _processes_in(out) == []


def _processes_in(folder: Path) -> list[str]:
    """Those whose working directory is below it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            where = os.readlink(entry)
        except OSError:
            continue
        if Path(where).is_relative_to(folder):
            found.append(f"{entry.parent.name}: {where}")
    return found

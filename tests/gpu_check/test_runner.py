"""Steps that end badly: what they had said is kept, what they started is ended, and the others go on."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor import processes, runner
from frugal_alloc._command.doctor.results import StepResult
from frugal_alloc._command.doctor.step import Step
from gpu_check_run import PACKAGES, carry_out, environment, results

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


def ended(tmp_path: Path, seconds: float = 60, bodies: dict[str, str] | None = None, **options: Any) -> Any:
    """Steps with these bodies, carried out; the options that are a step's are theirs."""
    package = tmp_path / "steps_of_tests"
    package.mkdir()
    own = {name: options.pop(name) for name in ("needs_virtual_memory",) if name in options}
    for name, body in (bodies or {}).items():
        (package / f"{name}.py").write_text(f"import os, signal, subprocess\ndef run(report):\n    {body}\n")
    steps = [Step(name, "P0", 60, "how it ends", package=package.name, **own) for name in bodies or {}]
    base = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PACKAGES}"}
    return carry_out(tmp_path, *steps, base=base, seconds=seconds, **options)


def how(found: list[StepResult]) -> dict[str, tuple[str, str]]:
    return {result.step.name: (result.outcome, result.said) for result in found}


def test_each_step_ends_as_it_does_and_the_others_go_on(tmp_path: Path) -> None:
    found = ended(tmp_path, bodies={name: body for name, (body, _) in ENDINGS.items()})
    assert how(found) == {name: ending for name, (_, ending) in ENDINGS.items()}
    document = results(tmp_path / "out")
    assert not document["all_passed"]
    written = {step["name"]: step["checks"] for step in document["steps"]}
    # What a step had said before it faulted is kept.
    assert written["faults"] == [{"name": "before", "outcome": "passed", "said": "said"}]
    # Nothing that it started outlives it.
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "out" / "steps" / "starter" / "output.txt").read_text()), 0)
    # Results are whole after each step.
    seen = json.loads(written["looks"][0]["said"])
    assert [step["name"] for step in seen["steps"]] == [*ENDINGS][:-1]


def test_step_that_hangs_is_ended_at_its_limit_and_who_comes_too_late_is_not_reached(tmp_path: Path) -> None:
    found = ended(tmp_path, seconds=3, bodies={"hangs": HANGS, "late": "pass"})
    assert how(found) == {
        "hangs": ("failed", "ended at its limit of 3 s"),
        "late": ("not reached", "no time was left"),
    }
    assert found[0].checks[0]["said"] == "said"
    assert not results(tmp_path / "out")["all_passed"]


def test_gpu_without_virtual_memory_leaves_out_what_is_about_it(tmp_path: Path) -> None:
    bad = {"bad": "report.check('it', False, '')"}
    (found,) = ended(tmp_path, bodies=bad, needs_virtual_memory=True, virtual_memory=False)
    assert (found.outcome, found.is_bad) == ("skipped", False)


def test_process_that_the_driver_holds_is_said_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children, held = runner._children, 1 << 30  # no process has this number
    started = iter([()])
    monkeypatch.setattr(runner, "_children", lambda: [*children(), *next(started, (held,))])
    monkeypatch.setattr(runner, "_SECONDS_TO_DIE", 0.0)
    alone = "report.check('it', True, str(report.fills_the_device))"
    first, good = ended(tmp_path, bodies={"first": alone, "good": alone})
    assert first.outcome == "unknown"
    assert "does not end although it was killed" in first.said
    assert (good.outcome, good.said) == ("passed", "")
    # What is held keeps its memory.
    assert [result.checks[0]["said"] for result in (first, good)] == ["True", "False"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_what_was_found_and_nobody_behind(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "hardware", "facts", "--out", str(out)]
    options = {"stdout": subprocess.PIPE, "text": True, "cwd": tmp_path, "start_new_session": True}
    with subprocess.Popen(command, env=environment(), **options) as process:
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
    assert not [where for where in _working_directories() if where.is_relative_to(out)]


def _working_directories() -> list[Path]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            found.append(entry.readlink())
        except OSError:
            continue
    return found


def test_program_is_ended_with_all_that_it_started() -> None:
    code = "import os, time\nprint(os.fork(), flush=True)\ntime.sleep(600)"
    program = processes.run([sys.executable, "-c", code], 2.0, os.environ)
    assert program.status is None and program.said == "not done in its time"
    assert all(_ends(child) for child in map(int, program.out.split()) if child != 0)


def _ends(process: int) -> bool:
    """It was told to; the kernel takes its time to carry that out."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    with os.fdopen(handle):
        return bool(select.select([handle], [], [], 60)[0])

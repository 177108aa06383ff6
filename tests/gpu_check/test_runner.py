"""Steps that end badly: what they had said is kept, what they started is ended, and the others go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._gpu_check import runner, surroundings
from frugal_alloc._gpu_check.results import Results
from frugal_alloc._gpu_check.runner import Runner
from frugal_alloc._gpu_check.steps import FACTS, Step
from gpu_check_run import PACKAGES, environment, results

SOFTWARE = {"torch": "2.11.0", "python": "3.11.2", "kernel": "6.1", "frugal_alloc": "0.1.0"}
WHERE = {
    "simulated": False,
    "virtual_memory": True,
    "is_ours_alone": True,
    "gpu": "a GPU of this test",
    "memory_bytes": 1 << 34,
    "driver": "1.2",
    "driver_for_cuda": "13.0",
    "software": SOFTWARE,
}

# Each a step's run(report).
STEPS = {
    "good": "report.check('it', True, 'well')",
    "bad": "report.check('it', False, 'not well')",
    "faults": "report.check('before', True, 'said'); os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "report.check('before', True, 'said'); print('asleep', flush=True); signal.pause()",
    "raises": "raise RuntimeError('the driver is gone')",
    "silent": "pass",
    "exits": "os._exit(7)",
}


def steps(folder: Path, names: list[str], **bodies: str) -> list[Step]:
    made = []
    for name in names:
        body = textwrap.indent((STEPS | bodies)[name], "    ")
        (folder / f"step_{name}.py").write_text(f"import os, signal, subprocess, sys\ndef run(report):\n{body}\n")
        made.append(Step(name, "P0", FACTS, "how it ends", f"step_{name}", 60))
    return made


def carry_out(tmp_path: Path, wanted: list[Step], seconds: float = 60, **where: Any) -> Results:
    out = surroundings.prepare(tmp_path / "out")
    base = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PACKAGES}"}
    found = Results({**WHERE, **where}, {})
    carried = Runner(out, surroundings.environment(out, base), found, lambda step: 1 / len(wanted), lambda line: None)
    carried.run_part(wanted, seconds)
    return found


def ended(found: Results) -> dict[str, tuple[str, str]]:
    return {result.step.name: (result.outcome, result.said) for result in found.steps}


def test_each_step_ends_as_it_does_and_the_others_go_on(tmp_path: Path) -> None:
    found = carry_out(tmp_path, steps(tmp_path, ["bad", "faults", "raises", "silent", "exits", "good"]))
    endings = ended(found)
    assert endings.pop("good") == ("passed", "")
    assert {outcome for outcome, _ in endings.values()} == {"failed"}
    assert "SIGSEGV" in endings["faults"][1]
    assert endings["raises"][1] == "RuntimeError: the driver is gone"
    assert endings["silent"][1] == "it ended without a word"
    assert "7" in endings["exits"][1]
    assert not found.all_passed


def test_what_a_step_said_before_it_faulted_is_kept(tmp_path: Path) -> None:
    carry_out(tmp_path, steps(tmp_path, ["faults"]))
    (step,) = results(tmp_path / "out")["steps"]
    assert step["checks"] == [{"name": "before", "outcome": "passed", "said": "said"}]


def test_step_that_hangs_is_ended_at_its_limit(tmp_path: Path) -> None:
    found = carry_out(tmp_path, steps(tmp_path, ["hangs"]), seconds=3)
    (result,) = found.steps
    assert (result.outcome, result.said) == ("failed", "ended at its limit of 3 s")
    assert result.checks[0]["said"] == "said"


def test_steps_for_which_no_time_is_left_are_not_reached(tmp_path: Path) -> None:
    found = carry_out(tmp_path, steps(tmp_path, ["hangs", "good"]), seconds=1.5)
    assert ended(found)["good"] == ("not reached", "no time was left")
    assert not found.all_passed


def test_nothing_that_a_step_started_outlives_it(tmp_path: Path) -> None:
    started = "print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid); report.check('it', True, '')"
    carry_out(tmp_path, steps(tmp_path, ["starter"], starter=started))
    process = int((tmp_path / "out" / "steps" / "starter" / "output.txt").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_gpu_without_virtual_memory_leaves_out_what_is_about_it(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, ["bad"])
    about_mapping = Step(**{**vars(step), "needs_virtual_memory": True})
    found = carry_out(tmp_path, [about_mapping], virtual_memory=False)
    assert ended(found)["bad"][0] == "skipped"
    assert found.all_passed


def test_results_are_whole_after_each_step(tmp_path: Path) -> None:
    looks = "report.check('it', True, open('../../results.json').read())"
    carry_out(tmp_path, steps(tmp_path, ["good", "looks"], looks=looks))
    seen = json.loads(results(tmp_path / "out")["steps"][1]["checks"][0]["said"])
    assert [step["name"] for step in seen["steps"]] == ["good"]


def test_process_that_the_driver_holds_is_said_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children, held = runner._children, 1 << 30  # no process has this number
    started = iter([()])
    monkeypatch.setattr(runner, "_children", lambda: [*children(), *next(started, (held,))])
    monkeypatch.setattr(runner, "_SECONDS_TO_DIE", 0.0)
    alone = "report.check('it', True, str(report.fills_the_device))"
    found = carry_out(tmp_path, steps(tmp_path, ["first", "good"], first=alone, good=alone))
    first, good = found.steps
    assert first.outcome == "unknown"
    assert "does not end although it was killed" in first.said
    assert (good.outcome, good.said) == ("passed", "")
    # What is held keeps its memory.
    assert [result.checks[0]["said"] for result in found.steps] == ["True", "False"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_what_was_found_and_nobody_behind(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "frugal_alloc._gpu_check", "facts", "--out", str(out)]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
    ) as process:
        assert process.stdout is not None
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

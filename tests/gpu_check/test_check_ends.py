"""How the check of a real GPU ends, with a step of ours in the place of those that ask a GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_check_run import ROOT, Outcome, environment, run
from hardware import __main__ as check

FAKED = """import os, signal, sys
from gpu_check_run import WHERE
from hardware import __main__ as check
signal.signal(signal.SIGHUP, signal.SIG_DFL)
check.machine.find = lambda *_: (dict(os.environ), WHERE)
name, code, *arguments = sys.argv[1:]
check._steps = lambda *_: [check.Step(name, ("-c", code), 60)]
sys.exit(check.main(arguments))"""
PATHS = f"{environment()['PYTHONPATH']}:{ROOT / 'tests' / 'gpu_check'}"


def faked(code: str, *arguments: str | Path, name: str = "it") -> list[str]:
    return [sys.executable, "-c", FAKED, name, code, *map(str, arguments)]


def ended(*arguments: str | Path, code: str = "pass", name: str = "it", path: str = PATHS) -> Outcome:
    return run(*faked(code, *arguments, name=name), env=environment(PYTHONPATH=path))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -9)])
def test_a_step_ends_with_the_check(number: int, status: int, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = f"import signal\nwith open({str(pipe)!r}, 'w') as pipe: print('on', file=pipe, flush=True); signal.pause()"
    command = faked(code, "switches", "--out", tmp_path / "out")
    with subprocess.Popen(command, env=environment(PYTHONPATH=PATHS)) as running, open(pipe) as said:
        assert said.readline() == "on\n"
        running.send_signal(number)
        assert (said.read(), running.wait()) == ("", status)


def test_what_the_users_minutes_leave_no_time_for_is_no_failure(tmp_path: Path) -> None:
    paused = check.Step("it", ("-c", "import signal; signal.pause()"), 60)
    assert check._carry_out(paused, tmp_path, dict(os.environ), 1.5) == "not reached: no time was left"
    done = ended("throughput", "--minutes", "0.01", "--out", tmp_path / "out", name="throughput")
    assert (done.status, "throughput          not reached" in done.out) == (2, True), done


def test_what_was_not_found_out_has_not_passed(tmp_path: Path) -> None:
    done = ended("switches", "--out", tmp_path / "out", code="print('SKIPPED [1] not found out: no memory')")
    assert (done.status, "not all could be asked" in done.out) == (2, True), done


def test_without_the_software_that_a_part_needs_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "__init__.py").touch()
    out, without = tmp_path / "out", f"{tmp_path}:{PATHS}"
    assert "pip install 'cuda-bindings" in ended("tests", "--out", out, path=without).assert_refused()
    assert not out.exists() and ended("switches", "--out", out, path=without).status == 0
    monkeypatch.setitem(sys.modules, "pytest", None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(check.Refused, match="pip install 'pytest"):
        check._check_installed("switches")


def test_nobody_who_reads_stops_nothing_and_a_folder_that_takes_nothing_is_named(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = faked("pass", "switches", "--out", tmp_path / "out")
    done = subprocess.run(command, env=environment(PYTHONPATH=PATHS), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "out" / "results.json").read_text())["steps"] == {"it": "passed"}
    full = ended("switches", "--out", tmp_path / "full", code="import os; os.mkdir('results.json')")
    assert (full.status, full.err.count("\n"), "--out" in full.err) == (2, 1, True), full


def test_it_adds_to_nothing_of_another_gpu(tmp_path: Path) -> None:
    (tmp_path / "throughput.json").write_text("[]")
    (tmp_path / "where.json").write_text('{"GPU": "another"}')
    said = ended("throughput", "--add", tmp_path, "--out", tmp_path / "out").assert_refused()
    assert "is of GPU another, and this is a GPU" in said and not (tmp_path / "out").exists()

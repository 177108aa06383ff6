"""tools/acceptance: what it finds, runs, prints and returns. A stand-in takes the worker's place, so no torch runs."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("acceptance", str(ROOT / "tools" / "acceptance"))
acceptance = importlib.util.module_from_spec(importlib.util.spec_from_loader("acceptance", loader))
sys.modules["acceptance"] = acceptance
loader.exec_module(acceptance)

WORKER = """
import json, os, signal, sys

reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)
names = sys.argv[4:]
for name in names:
    print("output of", name, flush=True)
    kind = name.removeprefix("Case.test_")
    reports.write(json.dumps({"test": name}) + "\\n")
    if kind == "crashes" or (kind == "crashes_after_others" and len(names) > 1):
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "hangs":
        signal.pause()
    outcome = {"fails": "failed", "is_skipped": "skipped"}.get(kind, "passed")
    reports.write(json.dumps({"test": name, "outcome": outcome, "reason": "because", "seconds": 0}) + "\\n")
"""


class Workplace:
    """What a run needs of acceptance.Workplace."""

    def __init__(self, _, allocator: str, __) -> None:
        self.python, self.allocator = Path(sys.executable), allocator

    def environment(self, setting) -> dict[str, str]:
        return dict(os.environ)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs tools/acceptance on tests of these names; its status and what it printed."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "worker.py").write_text(WORKER)
    (tmp_path / "tools" / "exceptions.txt").write_text("# Why\nmain/test_cuda.py Case.test_fails: it asks too much\n")
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "test_cuda.py").touch()
    monkeypatch.setattr(acceptance, "Workplace", Workplace)
    monkeypatch.setattr(acceptance, "HERE", tmp_path / "tools")

    def run(*names: str, options: tuple[str, ...] = ()) -> tuple[int, list[str]]:
        tests = tmp_path / "accept_native.txt"
        tests.write_text("".join(f"main/test_cuda.py Case.test_{name}\n" for name in names))
        arguments = [str(tmp_path), "--list", str(tests), "--python", sys.executable, "--jobs", "1"]
        status = acceptance.main([*arguments, *options])
        return status, capsys.readouterr().out.splitlines()

    return run


def test_all_pass(run):
    status, lines = run("one", "two")
    assert status == 0
    assert [line.split()[:4] for line in lines[:2]] == [
        ["passed", "accept_native:", "main/test_cuda.py", "Case.test_one"],
        ["passed", "accept_native:", "main/test_cuda.py", "Case.test_two"],
    ]
    assert lines[-1] == "2 passed, 0 failed"


def test_crash_does_not_lose_the_others(run):
    status, lines = run("one", "crashes", "two")
    assert status == 1
    assert sum(line.startswith("passed") for line in lines) == 2
    (crash,) = (line for line in lines if line.startswith("crashed"))
    assert "signal SIGSEGV: output of Case.test_crashes" in crash


def test_a_failure_among_others_is_decided_alone(run):
    status, lines = run("one", "crashes_after_others", "two")
    assert status == 0
    assert any("alone; after others: signal SIGSEGV" in line for line in lines)


def test_hang_ends_at_the_time_limit(run):
    status, lines = run("hangs", "one", options=("--time-limit", "0.5"))
    assert status == 1
    assert any(line.startswith("timed out") for line in lines)
    assert any(line.startswith("passed") for line in lines)


def test_skipped_test_is_no_pass(run):
    assert run("is_skipped")[0] == 1


def test_exception_may_fail_and_is_named_with_its_reason(run):
    status, lines = run("fails")
    assert status == 0
    assert lines[0].startswith("exception") and lines[0].endswith("it asks too much")


def test_without_ours_nothing_is_excepted(run):
    assert run("fails", options=("--native",))[0] == 1


def test_tests_without_their_file_are_missing_and_the_others_run(run, tmp_path):
    other = tmp_path / "accept_multigpu.txt"
    other.write_text("Case.test_two\n")
    status, lines = run("one", options=("--list", str(tmp_path / "accept_native.txt"), str(other)))
    assert status == 1
    assert lines[1].startswith("missing   accept_multigpu: test_cuda_multigpu.py Case.test_two")
    assert lines[-1] == "1 passed, 1 failed"


def test_lists_say_what_tests_need(tmp_path):
    path = tmp_path / "accept_multigpu.txt"
    path.write_text("Case.test_one\n\n# with values computed\nCase.test_two # and more\n")
    one, two = acceptance.read_list(path)
    assert (one.file, one.setting.gpus, one.setting.values) == ("test_cuda_multigpu.py", 2, False)
    assert (two.setting.gpus, two.setting.values) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a folder"),
        ([".", "--list", "none.txt"], "there is no list none.txt"),
        ([".", "--list", "wrong.txt"], "wrong.txt:2: not FILE CLASS.TEST: a b c"),
        ([".", "--list", "empty.txt"], "no test is left to run"),
        ([".", "--list", "good.txt"], "no v24/test_cuda.py in"),
        ([".", "--list", "good.txt", "--filter", "("], "is not a regular expression"),
    ],
)
def test_bad_input_gets_one_line_and_status_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("wrong.txt").write_text("# tests\na b c\n")
    Path("empty.txt").touch()
    Path("good.txt").write_text("v24/test_cuda.py Case.test_one\n")
    assert acceptance.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1

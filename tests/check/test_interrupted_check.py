"""A check that is interrupted says so, and neither compares nor writes what it has measured by then."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from carried_out import Outcome
from checked_project import Project

PLAIN = "import torch\n\n\ndef test_plain():\n    torch.empty(1 << 20, device='cuda')\n"
WAITING = """

def test_waiting():
    print("waiting", flush=True)
    input()
"""
# As a program that saves its work does.
CALM = """
import torch

x = torch.empty(1 << 20, device="cuda")
try:
    print("waiting", flush=True)
    input()
except KeyboardInterrupt:
    print("saved")
"""
TESTS = ("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider")


def interrupted(folder: Path, *arguments: str, number: int = signal.SIGINT, ignore: bool = False) -> Outcome:
    """A check whose command waits when the signal comes. Where it waits on or once more, it reads an empty line."""
    line = [sys.executable, "-m", "frugal_alloc", "check", "--baseline", "memory.json", *arguments]
    ignoring: Callable[[], object] | None = (lambda: signal.signal(number, signal.SIG_IGN)) if ignore else None
    pipe = subprocess.PIPE
    with subprocess.Popen(
        line, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True, preexec_fn=ignoring
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        out = []
        for text in process.stdout:
            out.append(text)
            if "waiting" in text:
                has_come = "".join(out).count("waiting") > 1
                if not has_come:
                    process.send_signal(number)
                if has_come or ignore:
                    process.stdin.write("\n")
                    process.stdin.flush()
        return Outcome(process.wait(timeout=600), "".join(out), process.stderr.read())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = Project(tmp_path_factory.mktemp("measured"))
    project.write("test_it.py", PLAIN)
    assert project.check("--update", "--values", "none").status == 0
    return project.folder


@pytest.fixture
def made(measured: Path, project: Project) -> Project:
    """With a baseline, and one more test than that."""
    shutil.copy(measured / "memory.json", project.folder)
    project.write("test_it.py", PLAIN.replace("1 << 20", "2 << 20") + WAITING)
    return project


def test_comparison_that_is_interrupted_says_so(made: Project) -> None:
    outcome = interrupted(made.folder, "--", sys.executable, *TESTS)
    assert outcome.status == 130
    assert outcome.err.splitlines()[-1] == "frugal-alloc check: interrupted: nothing was compared"
    assert "baseline" not in outcome.out


def test_update_that_is_interrupted_leaves_the_baseline_and_measures_no_more(made: Project) -> None:
    before = (made.folder / "memory.json").read_bytes()
    outcome = interrupted(made.folder, "--update", "--runs", "2", "--", sys.executable, *TESTS)
    assert outcome.status == 130
    assert outcome.err.splitlines()[-1] == "frugal-alloc check: interrupted: memory.json was not written"
    assert (made.folder / "memory.json").read_bytes() == before
    assert outcome.out.count("waiting") == 1


def test_termination_is_an_interruption(made: Project) -> None:
    outcome = interrupted(made.folder, "--update", "--", sys.executable, *TESTS, number=signal.SIGTERM)
    assert outcome.status == 128 + signal.SIGTERM
    assert outcome.err == "frugal-alloc check: interrupted by SIGTERM: memory.json was not written\n"


def test_program_that_ends_well_when_interrupted_is_not_compared(project: Project) -> None:
    project.write("train.py", CALM)
    outcome = interrupted(project.folder, "--update", "--values", "none", "--", sys.executable, "train.py")
    assert (outcome.status, outcome.out) == (130, "waiting\nsaved\n")
    assert outcome.err == "frugal-alloc check: interrupted: memory.json was not written\n"
    assert os.listdir(project.folder) == ["train.py"]


def test_interruption_that_its_caller_ignores_is_none(made: Project) -> None:
    outcome = interrupted(made.folder, "--update", "--", sys.executable, *TESTS, ignore=True)
    assert (outcome.status, outcome.err) == (0, "")
    assert "memory.json has 1 test or process, 1 changed" in outcome.out

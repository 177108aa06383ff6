"""Fits the programs of fitted_programs.py, each in processes of its own."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fork_server
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "cli"))
import carried_out

command = carried_out.command
PROGRAMS = Path(__file__).with_name("fitted_programs.py")


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def verdict(self) -> dict[str, Any]:
        (verdict,) = json.loads(self.out)["verdicts"]
        return verdict


def run_fit(*arguments: str | Path, **options: Any) -> Outcome:
    line = [sys.executable, "-m", "frugal_alloc", "fit", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def fit() -> Callable[..., Outcome]:
    """Carries out a command line after ``frugal-alloc fit``."""
    return run_fit


@functools.cache
def run_of_program(name: str, options: tuple[str, ...], python: str) -> Outcome:
    is_usual = not {"--memory", "--gpu", "--find-gpu"} & set(options)
    gpu = ["--memory", "8GiB"] if is_usual else []
    python = python or (fork_server.interpreter() if is_usual else sys.executable)
    return run_fit(*gpu, "--json", *options, "--", python, PROGRAMS, name)


@pytest.fixture
def fit_program() -> Callable[..., Outcome]:
    """Fits one of the programs by its name, on a GPU of 8 GiB unless the options say otherwise.

    On that, which most are for, it is forked from a process that has PyTorch unless `python` is another interpreter.
    Tests that ask for the same are told of the same run.
    """
    return lambda name, *options, python="": run_of_program(name, options, python)

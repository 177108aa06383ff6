"""Fits the programs of fitted_programs.py, each in processes of its own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import fork_server
import pytest
from carried_out import Outcome, command, in_a_process  # noqa: F401

PROGRAMS = Path(__file__).with_name("fitted_programs.py")


@pytest.fixture
def fit() -> Callable[..., Outcome]:
    """Carries out a command line after ``frugal-alloc fit``."""
    return functools.partial(in_a_process, "fit")


@functools.cache
def run_of_program(name: str, options: tuple[str, ...], python: str) -> Outcome:
    is_usual = not {"--memory", "--gpu", "--find-gpu"} & set(options)
    gpu = ["--memory", "8GiB"] if is_usual else []
    python = python or (fork_server.interpreter() if is_usual else sys.executable)
    return in_a_process("fit", *gpu, "--json", *options, "--", python, PROGRAMS, name)


@pytest.fixture
def fit_program() -> Callable[..., Outcome]:
    """Fits one of the programs by its name, on a GPU of 8 GiB unless the options say otherwise.

    On that, which most are for, it is forked from a process that has PyTorch unless `python` is another interpreter.
    Tests that ask for the same are told of the same run.
    """
    return lambda name, *options, python="": run_of_program(name, options, python)

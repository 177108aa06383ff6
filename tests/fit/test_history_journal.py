"""Where the package has no library for a PyTorch, `fit` reads the history that PyTorch keeps: with the same figures."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
from carried_out import Outcome, in_a_process

PACKAGE = Path(frugal_alloc.__file__).parent
PROGRAMS = Path(__file__).with_name("fitted_programs.py")


@pytest.fixture(scope="module")
def without_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a package that has the simulated GPU, and libraries for no PyTorch."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("frugal_*_torch*", "__pycache__"))
    return folder


def fit(installed: Path, name: str, allocator: str) -> Outcome:
    options = ("--memory", "8GiB", "--json", "--steps", "3", "--allocator", allocator)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return in_a_process("fit", *options, "--", sys.executable, PROGRAMS, name, env=environment)


@pytest.mark.parametrize("name", ["checkpointed", "convolutions", "second_stream", "forever"])
def test_figures_of_each_phase_are_those_that_the_library_has(
    name: str, without_libraries: Path, fit_program: Any
) -> None:
    (rank,) = fit(without_libraries, name, "native").verdict["ranks"]
    (expected,) = fit_program(name, "--steps", "3", "--allocator", "native").verdict["ranks"]
    for key in ("requested_peak_bytes", "reserved_peak_bytes"):
        assert rank[key] == expected[key]
    figures = [(phase["phase"], phase["used_bytes"], phase["components"]) for phase in rank["phases"]]
    assert figures == [(phase["phase"], phase["used_bytes"], phase["components"]) for phase in expected["phases"]]


def test_our_own_allocator_needs_its_library(without_libraries: Path) -> None:
    done = fit(without_libraries, "plain", "frugal")
    assert done.status == 2
    assert "has no frugal_alloc_torch" in done.err

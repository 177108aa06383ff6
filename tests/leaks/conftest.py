"""Runs programs on the simulated GPU for what is tested here of tracking."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import files_on_gpu
import fork_server
import frugal_alloc
import pytest
import simulated_gpu

if TYPE_CHECKING:
    from frugal_alloc._tracking.tracker import Tracker

HERE = Path(__file__).resolve().parent
PACKAGE = Path(frugal_alloc.__file__).resolve().parents[1]

# What a program prints its results behind.
MARK = "RESULTS"


def _on_gpu(memory: str = "8GiB", **environment: str) -> dict[str, str]:
    base = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(PACKAGE), str(HERE)])} | environment
    return simulated_gpu.environment(simulated_gpu.parse_size(memory), base=base)


if not files_on_gpu.is_inside():

    def pytest_pycollect_makemodule(module_path, parent):
        if module_path.stem.endswith("_on_gpu"):
            return files_on_gpu.FileOnGpu.from_parent(parent, path=module_path, environment=_on_gpu)
        return None


@pytest.fixture
def tracking() -> Tracker:
    """What follows the program of a test on the GPU, from here on."""
    from frugal_alloc import _native, _tracking

    frugal_alloc.enable()
    gc.collect()
    _tracking.restart(_native.load())
    return _tracking.current()


@pytest.fixture(scope="session")
def run_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Runs a Python file of this folder, or a source text, on the simulated GPU.

    Returns:
        What it printed as JSON behind "RESULTS"; None if nothing.
    """

    def run(program: str, *arguments: str, status: int = 0, memory: str = "8GiB", **environment: str) -> Any:
        path = HERE / program
        if "\n" in program:
            path = tmp_path_factory.mktemp("program") / "program.py"
            path.write_text(program)
        variables = _on_gpu(memory, **environment)
        done = fork_server.run([sys.executable, path, *arguments], env=variables, cwd=path.parent)
        assert done.returncode == status, done.stdout + done.stderr
        results = [text for text in done.stdout.splitlines() if text.startswith(MARK)]
        return json.loads(results[-1].removeprefix(MARK)) if results else done.stderr

    return run

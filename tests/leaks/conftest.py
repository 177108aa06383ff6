"""Runs programs on the simulated GPU for what is tested here of tracking."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fork_server
import frugal_alloc
import pytest
from frugal_alloc._simulation import simulated_gpu

HERE = Path(__file__).resolve().parent
PACKAGE = Path(frugal_alloc.__file__).resolve().parents[1]

# What a program prints its results behind.
MARK = "RESULTS"


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
        base = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(PACKAGE), str(HERE)])} | environment
        variables = simulated_gpu.environment(simulated_gpu.parse_size(memory), base=base)
        done = fork_server.run([sys.executable, path, *arguments], env=variables, cwd=path.parent)
        assert done.returncode == status, done.stdout + done.stderr
        results = [text for text in done.stdout.splitlines() if text.startswith(MARK)]
        return json.loads(results[-1].removeprefix(MARK)) if results else done.stderr

    return run

"""Runs programs of programs/ on the simulated GPU by `frugal-alloc run`, and gives back what they reported."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:  # of run_programs.py
    sys.path.insert(0, str(HERE.parent))

import fork_server  # noqa: E402
from frugal_alloc._simulation import simulated_gpu  # noqa: E402

PROGRAMS = HERE / "programs"
# What stands for other people's packages in the programs.
LIBRARIES = HERE / "libraries" / "site-packages"
MEMORY = 4 << 30
# A program that hangs is ended.
MOST_SECONDS = 300


class Run(NamedTuple):
    """How a program ended, and what its report said."""

    status: int
    output: str
    document: dict[str, Any] | None  # None: no report was written


def run(name: str, values: str = "none") -> Run:
    """Runs a program, given by the name of its file without ".py"; `values`: "cpu" to have kernels computed."""
    paths = [str(HERE.parents[1] / "bindings"), str(LIBRARIES)]
    base = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as folder:
        environment = simulated_gpu.environment(MEMORY, values=values, base=base)
        environment["FRUGAL_ALLOC_CONF"] = f"report_dir:{folder}"
        command = [sys.executable, "-m", "frugal_alloc", "run", str(PROGRAMS / f"{name}.py")]
        done = fork_server.run(command, env=environment, cwd=folder, timeout=MOST_SECONDS)
        documents = [json.loads(path.read_text()) for path in Path(folder).glob("frugal-*.json")]
    return Run(done.returncode, done.stdout + done.stderr, documents[0] if documents else None)

"""Where the package under test lies, for this process and for those that it starts, and programs on a simulated GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fork_server

PACKAGES = Path(__file__).resolve().parents[1] / "python"
GIB = 1 << 30


def package_first(environment: dict[str, str]) -> dict[str, str]:
    """The environment in which a child imports the package from this checkout, installed or not."""
    path = [environment.get("PYTHONPATH", ""), str(PACKAGES)]
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def run(
    program: str, memory: int = 2 * GIB, *, gpu: dict[str, Any] | None = None, is_forked: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python on a simulated GPU, as `gpu` and then variables say; `is_forked`: from a process with torch."""
    import simulated_gpu

    environment = package_first(simulated_gpu.environment(memory, **(gpu or {})) | variables)
    command = [sys.executable, "-c", program]
    if is_forked:
        return fork_server.run(command, env=environment)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def output_of(program: str, memory: int = 2 * GIB, **options: Any) -> str:
    """What a program prints that ends well and says nothing else."""
    done = run(program, memory, **options)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout

"""Runs a program in a room of the simulated GPU, and reads its error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import error_claims
import fork_server
import simulated_gpu

HERE = Path(__file__).resolve().parent
# Beside the package, what stands for other people's packages in the programs, and their own other files.
PATHS = (fork_server.BINDINGS, HERE / "libraries" / "site-packages", error_claims.PROGRAMS)
MEMORY = 16 << 30
# Sizes do not depend on what tensors hold.
NO_CONTENTS = {"FRUGAL_SIM_KEEP": "1MiB"}


def run(program: Path, room: int) -> subprocess.CompletedProcess[str]:
    """`room`: the MiB that it can have."""
    base = os.environ | NO_CONTENTS | {"PYTHONPATH": os.pathsep.join(map(str, PATHS))}
    command = [sys.executable, HERE / "in_room.py", str(room), program]
    return fork_server.run(command, env=simulated_gpu.environment(MEMORY, base=base), cwd=program.parent)


def error_of(program: Path, room: int) -> dict[str, Any]:
    """What the report has of the error that the program runs into."""
    done = run(program, room)
    (file,) = program.parent.glob("frugal-*.json")
    error = json.loads(file.read_text())["oom"]
    # The library goes on after PyTorch's sentence, which searches for it find.
    assert done.returncode == 0 or all(part in done.stderr for part in error["message"].split("\n", 1)), done.stderr
    return error


def write(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path

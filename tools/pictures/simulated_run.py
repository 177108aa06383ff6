"""Runs a program of a picture on the simulated GPU."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any


def answer(program: pathlib.Path, *arguments: str, memory: str, settings: Mapping[str, str] | None = None) -> Any:
    """What the program prints, in JSON. `memory` is the GPU's, "8GiB"; `settings` are environment variables.

    Raises RuntimeError with the end of what the program says if it fails.
    """
    return json.loads(_printed(program, arguments, memory, settings or {}))


def written(program: pathlib.Path, *arguments: str, memory: str, settings: Mapping[str, str] | None = None) -> Any:
    """As `answer`, of a program that prints for people and writes JSON to the file that --json names."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "written.json")
        _printed(program, (*arguments, "--json", str(file)), memory, settings or {})
        return json.loads(file.read_text(encoding="utf-8"))


def _printed(program: pathlib.Path, arguments: Sequence[str], memory: str, settings: Mapping[str, str]) -> str:
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", memory, "--"]
    # What the user has set is for other programs; where the libraries lie is so for all.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FRUGAL_", "PYTORCH_")) or name == "FRUGAL_SIM_LIBRARIES"
    }
    done = subprocess.run(
        [*simulate, sys.executable, str(program), *arguments],
        env=inherited | dict(settings),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout

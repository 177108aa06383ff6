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

from . import ROOT

_FORKED_RUNS = pathlib.Path(__file__).resolve().parent / "programs" / "forked_runs.py"


def answer(program: pathlib.Path, *arguments: str, memory: str, settings: Mapping[str, str] | None = None) -> Any:
    """What the program prints, in JSON. `memory` is the GPU's, "8GiB"; `settings` are environment variables.

    Raises RuntimeError with the end of what the program says if it fails.
    """
    return json.loads(_printed(program, arguments, ("--memory", memory), settings or {}))


def written(program: pathlib.Path, *arguments: str, memory: str, settings: Mapping[str, str] | None = None) -> Any:
    """As `answer`, of a program that prints for people and writes JSON to the file that --json names."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "written.json")
        _printed(program, (*arguments, "--json", str(file)), ("--memory", memory), settings or {})
        return json.loads(file.read_text(encoding="utf-8"))


def several(
    program: pathlib.Path, runs: Sequence[Sequence[str]], gpu: Sequence[str], modules: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """What each of the program's runs writes to the file that --json names; by "status" and "said" how it ended.

    `runs` are lists of arguments, `gpu` is that of frugal-alloc simulate, such as ("--gpu", "RTX 3070"). `modules` are
    imported once for all runs. Each run is a process of its own, and may end as it likes.
    """
    arguments = (str(program), ",".join(("torch", *modules)))
    lines = "".join(json.dumps(list(run)) + "\n" for run in runs)
    # Copies of large tensors, and threads that wait for each other, would take most of the time.
    settings = {"FRUGAL_SIM_KEEP": "1MiB", "OMP_NUM_THREADS": "1"}
    printed = _printed(_FORKED_RUNS, arguments, gpu, settings, lines)
    return [json.loads(line) for line in printed.splitlines()]


def _printed(
    program: pathlib.Path, arguments: Sequence[str], gpu: Sequence[str], settings: Mapping[str, str], told: str = ""
) -> str:
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", *gpu, "--"]
    # What the user has set is for other programs; where the libraries lie is so for all.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FRUGAL_", "PYTORCH_")) or name == "FRUGAL_SIM_LIBRARIES"
    }
    done = subprocess.run(
        [*simulate, sys.executable, str(program), *arguments],
        env=inherited | dict(settings),
        input=told,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout

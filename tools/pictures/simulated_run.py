"""Runs a program of a picture on the simulated GPU."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from . import ROOT

_FORKED_RUNS = pathlib.Path(__file__).resolve().parent / "programs" / "forked_runs.py"


def unset_environment() -> dict[str, str]:
    """Without what the user has set, which is for other programs; where the libraries lie is so for all."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FRUGAL_", "PYTORCH_")) or name == "FRUGAL_SIM_LIBRARIES"
    }


def several(
    program: pathlib.Path,
    runs: Sequence[Sequence[str]],
    gpu: Sequence[str],
    modules: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """What each of the program's runs writes to the file that --json names; by "status" and "said" how it ended.

    `runs` are lists of arguments, before which NAME=VALUE may stand as for a shell. `gpu` is that of frugal-alloc
    simulate, such as ("--gpu", "RTX 3070"). `modules` are imported once for all runs, with `settings` as environment
    variables. Each run is a process of its own, and may end as it likes.
    """
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", *gpu, "--"]
    # Copies of large tensors, and threads that wait for each other, would take most of the time.
    environment = unset_environment() | {"FRUGAL_SIM_KEEP": "1MiB", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*simulate, sys.executable, str(_FORKED_RUNS), str(program), ",".join(("torch", *modules))],
        env=environment | dict(settings or {}),
        input="".join(json.dumps(list(run)) + "\n" for run in runs),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def completed(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    """As several(), of runs that must end well.

    Raises RuntimeError with the end of what one says that does not.
    """
    found = several(*arguments, **options)
    for run in found:
        if run["status"] != 0:
            raise RuntimeError(f"{arguments[0].name} ended with status {run['status']}: {run['said'][-2000:]}")
    return found

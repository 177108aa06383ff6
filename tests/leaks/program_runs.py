"""Runs programs of programs/ on the simulated GPU, as `frugal-alloc run` would, and gives back what they reported.

As a script it is the side on the simulated GPU: a process that has imported torch and forks for each program, since the
imports take four seconds and a program less than one.
"""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
# What stands for other people's packages in the programs.
LIBRARIES = HERE / "libraries" / "site-packages"
MEMORY = "4GiB"
AT_ONCE = 2
# A program that hangs is ended by a signal.
MOST_SECONDS = 300
MARK = "RESULTS"


class Run(NamedTuple):
    """How a program ended, and what its report said."""

    status: int
    output: str
    document: dict[str, Any] | None  # None: no report was written


def run(names: Iterable[str], values: str = "none") -> dict[str, Run]:
    """Runs programs, given by the names of their files without ".py"; each in a process of its own.

    Args:
        names: The programs.
        values: "none", or "cpu" to have kernels computed.
    """
    package = HERE.parents[1] / "bindings"
    paths = os.pathsep.join([str(package), str(LIBRARIES)])
    environment = os.environ | {"PYTHONPATH": paths}
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", MEMORY, "--values", values, "--"]
    with tempfile.TemporaryDirectory() as folder:
        command = [*simulate, sys.executable, str(HERE / "program_runs.py"), folder, *names]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"the programs could not be run:\n{done.stdout}{done.stderr}")
    return {name: Run(*found) for name, found in json.loads(lines[-1].removeprefix(MARK)).items()}


def _serve(folder: str, names: list[str]) -> None:
    """Prints how each program ended. A child, which is to become a program, does not return from here."""
    import frugal_alloc  # noqa: F401
    import torch._dynamo  # noqa: F401  # the first optimizer of each program would, for two seconds

    running: dict[int, str] = {}
    ended: dict[str, Run] = {}
    for name in names:
        if len(running) == AT_ONCE:
            _await_one(running, ended, folder)
        child = os.fork()
        if child == 0:
            _become(name, os.path.join(folder, name))
        running[child] = name
    while running:
        _await_one(running, ended, folder)
    print(MARK + json.dumps(ended))


def _become(name: str, folder: str) -> None:
    from frugal_alloc._command import cli

    signal.alarm(MOST_SECONDS)
    os.makedirs(folder)
    os.chdir(folder)
    output = os.open("output", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["FRUGAL_ALLOC_CONF"] = f"report_dir:{folder}"
    # Leaves by SystemExit, through the interpreter's own end, which writes the report.
    cli.main(["run", str(PROGRAMS / f"{name}.py")])


def _await_one(running: dict[int, str], ended: dict[str, Run], folder: str) -> None:
    child, status = os.wait()
    name = running.pop(child)
    ended[name] = _found(os.waitstatus_to_exitcode(status), os.path.join(folder, name))


def _found(status: int, folder: str) -> Run:
    output = Path(folder, "output")
    documents = glob.glob(os.path.join(folder, "frugal-*.json"))
    document = json.loads(Path(documents[0]).read_text()) if documents else None
    if document is not None:
        document = {key: document[key] for key in ("verdicts", "epochs", "gpus", "notes", "timeline")}
    return Run(status, output.read_text() if output.exists() else "", document)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])

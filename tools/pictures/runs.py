"""Runs that documents show, on the simulated GPU; what they gave is kept in small JSON files beside the pictures."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, NamedTuple

from . import ROOT

FOLDER = ROOT / "docs" / "pictures"
COMMAND = "python tools/pictures --record"


class Runs(NamedTuple):
    """A program of examples/stories, and by GPU and name, the arguments of its runs, as the command line has them.

    A GPU is that of frugal-alloc simulate; "{pid}" in it is this process's. `kept` is given what a run has written to
    the file that --json names.
    """

    program: str
    arguments: Mapping[str, Mapping[str, str]]
    kept: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def record(self) -> dict[str, Any]:
        """By name, what is kept of each run."""
        program = ROOT / "examples" / "stories" / self.program
        return {
            name: self.kept(_written(program, shlex.split(gpu.format(pid=os.getpid())), shlex.split(words)))
            for gpu, runs in self.arguments.items()
            for name, words in runs.items()
        }


def _written(program: pathlib.Path, gpu: list[str], words: list[str]) -> dict[str, Any]:
    """Before the program's arguments NAME=VALUE may stand. It may fail only for lack of memory.

    Raises:
        RuntimeError: it ends otherwise; with the end of what it said.
    """
    import fork_server

    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", *gpu, "--"]
    settings = dict(word.split("=", 1) for word in words if not word.startswith("-") and "=" in word)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "written.json")
        # Copies of large tensors, and threads that wait for each other, would take most of the time.
        environment = unset_environment() | {"FRUGAL_SIM_KEEP": "1MiB", "OMP_NUM_THREADS": "1"} | settings
        environment["FRUGAL_ALLOC_CONF"] = f"report_dir:{folder}"
        command = [*simulate, fork_server.interpreter(), program, *words[len(settings) :], "--json", file]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        written = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if done.returncode != (1 if written.get("error") else 0):
        run = " ".join((program.name, *words))
        raise RuntimeError(f"{run} ended with status {done.returncode}: {done.stderr[-2000:]}")
    if written.get("error"):
        # The report is another file in each run.
        lines = written["error"].splitlines()
        written["error"] = "\n".join(line.rstrip() for line in lines if not line.startswith("Report:")).rstrip()
    return written


def unset_environment() -> dict[str, str]:
    """Without what the user has set, which is for other programs; where the libraries lie is so for all."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FRUGAL_", "PYTORCH_")) or name == "FRUGAL_SIM_LIBRARIES"
    }


def write(name: str, recorded: dict[str, Any]) -> None:
    """Writes a recording with the command that makes it again, and the versions that it is true of."""
    header = {"made_by": COMMAND, "versions": versions()}
    # One field a line, so that a change can be read as a difference.
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in (header | recorded).items()]
    _file(name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    return json.loads(_file(name).read_text(encoding="utf-8"))


def _file(name: str) -> pathlib.Path:
    return FOLDER / f"{name}.json"


def versions() -> dict[str, str]:
    """Of torch without its variant, since the allocator is the same in each."""
    return {"torch": metadata.version("torch").split("+")[0], "frugal_alloc": metadata.version("frugal_alloc")}

"""Records what the example reports show: `python tools/site --record`."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from . import ROOT
from .example_reports import FIT, document

_FRUGAL_ALLOC = [sys.executable, "-m", "frugal_alloc"]
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def main() -> int:
    try:
        found = {
            "leak": _report("4GiB", "none", "examples/stories/leak.py", "--allocator", "frugal"),
            "out_of_memory": _report("1GiB", "cpu", "tests/stories/detection.py"),
            FIT: _fit(),
            "tensorflow": _tensorflow(),
        }
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        # Nothing is written unless all is there.
        print(f"nothing was recorded: {error}: {getattr(error, 'stderr', None) or ''}"[-2000:], file=sys.stderr)
        return 2
    for name, told in found.items():
        document(name).parent.mkdir(parents=True, exist_ok=True)
        document(name).write_text(_text(told), encoding="utf-8")
    return 0


def _report(memory: str, values: str, *program: str) -> Any:
    """What a program's process reports as it ends."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*_FRUGAL_ALLOC, "simulate", "--memory", memory, "--values", values, "--", sys.executable]
        # A program that runs out of memory ends with status 1.
        _run([*command, *program], statuses=(0, 1), FRUGAL_ALLOC_CONF=f"report_dir:{folder}")
        [report] = pathlib.Path(folder).glob("frugal-*.json")
        return json.loads(report.read_text(encoding="utf-8"))


def _fit() -> Any:
    program = ["examples/fit/fsdp.py", "--layers", "4", "--length", "256"]
    options = ["--gpu", "A100-40GB", "--gpus", "2", "--json"]
    told = json.loads(_run([*_FRUGAL_ALLOC, "fit", *options, "--", *_TORCHRUN, *program]))
    for verdict in told["verdicts"]:
        # As a reader would have started it.
        verdict["command"] = ["torchrun", *_TORCHRUN[3:], *program]
    return told


def _tensorflow() -> Any:
    return json.loads(_run([*_FRUGAL_ALLOC, "report", "tests/reports/tensorflow/growing.log.gz", "--json"]))


def _run(command: list[str], statuses: tuple[int, ...] = (0,), **settings: str) -> str:
    # What the user has set is for other programs; where the libraries lie is so for all.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FRUGAL_", "PYTORCH_")) or name == "FRUGAL_SIM_LIBRARIES"
    }
    done = subprocess.run(command, cwd=ROOT, env=inherited | settings, capture_output=True, text=True)
    if done.returncode not in statuses:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout


def _text(told: Any) -> str:
    """One key a line, and files by their place in the repository, wherever that lay."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in told.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").replace(f"{ROOT}/", "")

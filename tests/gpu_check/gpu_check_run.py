"""The programs that the tests of the GPU check start, and what comes of them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor.step_report import FILE, StepReport

ROOT = Path(__file__).resolve().parents[2]
# Far above what any of these takes, far below waiting for ever.
MOST_SECONDS = 1500
PACKAGES = ROOT / "bindings"
TESTS = ROOT / "tests"


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    def assert_refused(self) -> str:
        """One line on stderr, status 2, nothing else; the line."""
        assert (self.status, self.out) == (2, ""), self
        assert self.err.count("\n") == 1, self.err
        return self.err


def run(*command: str | Path, **options: Any) -> Outcome:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=MOST_SECONDS, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


def environment(**changed: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{PACKAGES}{os.pathsep}{TESTS}", **changed}


def results(out: Path) -> dict[str, Any]:
    return json.loads((out / "results.json").read_text())


def report(folder: Path, **changed: Any) -> StepReport:
    """Of a step of a full run on a real GPU."""
    return StepReport(folder, **({"seconds": 100, "share": 1.0, "simulated": False} | changed))


def said(folder: Path, kind: str = "checks") -> list[dict[str, Any]]:
    return json.loads((folder / FILE).read_text())[kind]


def outcomes(folder: Path) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in said(folder)}


def carry_out(module: str, folder: Path, env: dict[str, str], **changed: Any) -> Outcome:
    """A step as the runner has it carried out."""
    task = {"module": module, "folder": str(folder), "seconds": 600, "share": 1.0, "parent": os.getpid()}
    command = [sys.executable, "-m", "frugal_alloc._command.doctor.child"]
    return run(*command, json.dumps(task | {"fills_the_device": True} | changed), env=env, cwd=folder)

"""The programs that the tests of the GPU check start, and what comes of them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor import machine
from frugal_alloc._command.doctor.results import Results, StepResult
from frugal_alloc._command.doctor.runner import Runner
from frugal_alloc._command.doctor.step import FILE, Step, StepReport
from frugal_alloc._simulation import simulated_gpu

ROOT = Path(__file__).resolve().parents[2]
# Far above what any of these takes, far below waiting for ever.
MOST_SECONDS = 1500
PACKAGES = ROOT / "bindings"
TESTS = ROOT / "tests"
GIB = 1 << 30
WHERE = {
    "simulated": False,
    "virtual_memory": True,
    "is_ours_alone": True,
    "gpu": "a GPU",
    "memory_bytes": 16 * GIB,
    "driver": "1.2",
    "driver_for_cuda": "13.0",
    "software": {"torch": "2.11", "python": "3.11", "kernel": "6.1", "frugal_alloc": "0"},
}


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
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (PACKAGES, TESTS, ROOT))), **changed}


def results(out: Path) -> dict[str, Any]:
    return json.loads((out / "results.json").read_text())


# --- Of one step.


def report(folder: Path, **changed: Any) -> StepReport:
    """Of a step of a full run on a real GPU."""
    return StepReport(folder, **({"seconds": 100, "share": 1.0, "simulated": False} | changed))


def said(folder: Path, kind: str = "checks") -> list[dict[str, Any]]:
    return json.loads((folder / FILE).read_text())[kind]


def outcomes(folder: Path) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in said(folder)}


def carry_out(folder: Path, *steps: Step, base: dict[str, str], seconds: float = 300, **where: Any) -> list[StepResult]:
    """As a run has its steps carried out, with an equal share of the time for each."""
    out = machine.prepare(folder / "out")
    found = Results(WHERE | where, {})
    Runner(out, machine.environment(out, base), found, lambda line: None, 1 / len(steps)).run_part(steps, seconds)
    return found.steps


def carry_out_simulated(folder: Path, step: Step, memory: int, **options: Any) -> StepResult:
    """As a run on the simulated GPU has it carried out; the options: variables, in capitals, and of where it runs."""
    variables = {name: options.pop(name) for name in list(options) if name.isupper()}
    base = simulated_gpu.environment(memory, base=environment(**variables))
    return carry_out(folder, step, base=base, simulated=True, **options)[0]

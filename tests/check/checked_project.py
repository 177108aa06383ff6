"""A project that ``frugal-alloc check`` is run in, and what a run of it may have recorded."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fork_server
from carried_out import Outcome, in_a_process
from frugal_alloc._planning.check.baseline import Figures, Line
from frugal_alloc._planning.check.runs import Run

MIB = 1 << 20


@dataclasses.dataclass
class Project:
    """A folder with tests and a baseline, and the command run in it.

    The tests run in a process that is forked from one with PyTorch, unless `python` is another interpreter.
    """

    folder: Path
    python: str = dataclasses.field(default_factory=fork_server.interpreter)

    def check(
        self,
        *options: str,
        command: Sequence[str] | None = None,
        pytest_options: Sequence[str] = (),
        **environment: str,
    ) -> Outcome:
        tests = [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *pytest_options]
        line = ["check", "--baseline", "memory.json", *options, "--", *(tests if command is None else command)]
        return in_a_process(*line, cwd=self.folder, env={**os.environ, **environment})

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    @property
    def baseline(self) -> dict[str, Any]:
        return json.loads((self.folder / "memory.json").read_text())

    @property
    def records(self) -> dict[str, Any]:
        return self.baseline["records"]


def line(file: str, number: int, size: int, text: str = "", function: str = "forward", through: str = "") -> Line:
    return Line(file, function, number, text or f"text of {file}:{number}", size, through)


def figures(peak: int, **others: Any) -> Figures:
    return Figures(**{"peak": peak, "released": peak, "gpu": 0, "waste": 0, "leaked": 0, "calls": {}, **others})


def run_of(records: dict[str, Figures], **others: Any) -> Run:
    """A run of tests that have all passed."""
    names = frozenset(records)
    none: frozenset[str] = frozenset()
    run = Run(0, records, passed=names, not_passed=none, failed=none, collected=names, torch="2.11.0", failures=())
    return run._replace(**others)

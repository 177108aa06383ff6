"""The command line carried out, and what came of it. A conftest.py that imports ``command`` has it in this process."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._command import cli


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def verdict(self) -> dict[str, Any]:
        """Of ``fit --json``, which has one."""
        (verdict,) = self.json["verdicts"]
        return verdict

    def assert_refused(self, case: str) -> None:
        """One clear line, status 2, nothing on standard output."""
        assert (self.status, self.out) == (2, ""), f"{case}: {self}"
        assert self.err.endswith("\n") and self.err[:-1].isprintable(), f"{case}: {self.err!r}"
        assert len(self.err) < 3000, case


def in_a_process(*arguments: Any, **options: Any) -> Outcome:
    """Carries out a command line in an interpreter of its own; `options` are those of ``subprocess.run``."""
    line = [sys.executable, "-m", "frugal_alloc", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Carries out a command line."""

    def carry_out(*arguments: Any) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return carry_out

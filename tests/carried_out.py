"""The command line carried out in this process, and what came of it. A conftest.py that imports ``command`` has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._command import cli


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    def assert_refused(self, case: str) -> None:
        """One clear line, status 2, nothing on standard output."""
        assert (self.status, self.out) == (2, ""), f"{case}: {self}"
        assert self.err.endswith("\n") and self.err[:-1].isprintable(), f"{case}: {self.err!r}"
        assert len(self.err) < 3000, case


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Carries out a command line."""

    def carry_out(*arguments: Any) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return carry_out

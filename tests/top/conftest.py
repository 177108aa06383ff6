"""Runs the command in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from frugal_alloc._command import cli


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Carries out a command line."""

    def carry_out(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        captured = capfd.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return carry_out

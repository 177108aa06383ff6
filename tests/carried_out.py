"""The command line carried out in this process, and what came of it."""

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


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Carries out a command line. A conftest.py that names it has it."""

    def carry_out(*arguments: Any) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return carry_out

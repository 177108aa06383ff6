"""Runs the command in this process or in one of its own, and makes recordings to feed it with."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command import cli
from recordings import Recording


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Carries out a command line in this process."""

    def carry_out(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return carry_out


@pytest.fixture
def program() -> Callable[..., Outcome]:
    """Carries out a command line in a process of its own: for what takes a process over."""

    def carry_out(*arguments: str | Path, **options: Any) -> Outcome:
        line = [sys.executable, "-m", "frugal_alloc", *map(str, arguments)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, **options)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return carry_out


@pytest.fixture
def recording() -> Recording:
    return Recording()

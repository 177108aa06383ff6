"""Runs the command in this process or in one of its own, and makes recordings to feed it with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from carried_out import Outcome, command  # noqa: F401
from recordings import Recording


@pytest.fixture
def program() -> Callable[..., Outcome]:
    """Carries out a command line in a process of its own: for what takes a process over."""

    def carry_out(*arguments: str | Path, **options: Any) -> Outcome:
        line = [sys.executable, "-m", "frugal_alloc", *map(str, arguments)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, **options)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return carry_out


@pytest.fixture
def no_gpu() -> None:
    """For tests of what a program is told where there is none."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")


@pytest.fixture
def recording() -> Recording:
    return Recording()

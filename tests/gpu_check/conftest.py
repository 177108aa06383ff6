"""What the tests of the GPU check share: the check on the simulated GPU, as a program of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_check_run import Outcome, environment, run


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs the check with these arguments, in an empty folder of its own."""

    def carry_out(*arguments: str | Path, **changed: str) -> Outcome:
        folder = tmp_path / "working"
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "frugal_alloc._gpu_check", *arguments]
        return run(*command, env=environment(**changed), cwd=folder)

    return carry_out

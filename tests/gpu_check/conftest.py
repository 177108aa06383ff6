"""What the tests of the GPU check share: the check on the simulated GPU, as a program of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

for _folder in ("tests", "bindings"):
    if (_path := str(Path(__file__).resolve().parents[2] / _folder)) not in sys.path:
        sys.path.insert(0, _path)

from gpu_check_run import Outcome, environment, run  # noqa: E402


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs the check with these arguments, in an empty folder of its own."""

    def carry_out(*arguments: str | Path, **changed: str) -> Outcome:
        folder = tmp_path / "working"
        folder.mkdir(exist_ok=True)
        return run(sys.executable, "-m", "hardware", *arguments, env=environment(**changed), cwd=folder)

    return carry_out

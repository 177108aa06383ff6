"""Runs programs of examples/stories as the tests of this room do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fork_server
import frugal_alloc
import pytest
import simulated_gpu

STORIES = Path(__file__).resolve().parents[2] / "examples" / "stories"
PACKAGE = Path(frugal_alloc.__file__).resolve().parents[1]


@pytest.fixture
def run_story(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """On a simulated GPU with the order of its work checked, in a folder of its own."""

    def run(
        story: str, memory_mib: int, *arguments: str, values: str = "cpu", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        environment = simulated_gpu.environment(memory_mib << 20, values=values) | variables
        path = filter(None, (str(PACKAGE), environment.get("PYTHONPATH")))
        environment |= {"PYTHONPATH": os.pathsep.join(path), "FRUGAL_SIM_ORDER": "1"}
        return fork_server.run([sys.executable, str(STORIES / story), *arguments], env=environment, cwd=tmp_path)

    return run

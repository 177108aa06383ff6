"""What is found out about a program's variables is right, and leaves them alone, in every Python that is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import frugal_alloc
import pytest
from test_python_stack import VERSIONS, find_python

PACKAGE = Path(frugal_alloc.__file__).resolve().parents[1]


def run(program: str, version: str) -> subprocess.CompletedProcess[str]:
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    line = [python, Path(__file__).with_name(program), PACKAGE]
    return subprocess.run(line, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("version", VERSIONS)
def test_dead_variables_are_those_that_the_source_says(version: str) -> None:
    done = run("liveness_program.py", version)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_variables_that_were_looked_at_are_as_they_were(version: str) -> None:
    done = run("frame_variables_program.py", version)
    assert done.returncode == 0, done.stderr

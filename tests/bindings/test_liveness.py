"""Which variables nothing reads any more is the same in every Python that is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import frugal_alloc
import pytest
from test_python_stack import VERSIONS, find_python

PACKAGE = Path(frugal_alloc.__file__).resolve().parents[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_dead_variables_are_those_that_the_source_says(version: str) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    program = Path(__file__).with_name("liveness_program.py")
    done = subprocess.run([python, program, PACKAGE], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr

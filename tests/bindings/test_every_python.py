"""In every Python that is here: the lines that memory is attributed to are those that Python itself names, also while
another thread holds the interpreter's lock; and what is found out about a program's variables is right, and leaves them
alone."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import frugal_alloc
import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = pathlib.Path(frugal_alloc.__file__).resolve().parents[1]
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))
TARGET = "//tests/bindings:python_stack_reader.so"


@pytest.fixture(scope="session", params=["3.10", "3.11", "3.12", "3.13", "3.14"])
def python(request) -> str:
    """One that runs: a manager of versions may have a command for one that is not there."""
    version = request.param
    here = "{}.{}".format(*sys.version_info)
    candidates = [sys.executable] if version == here else []
    candidates += [shutil.which(f"python{version}") or ""]
    candidates += map(str, pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return candidate
    return pytest.skip(f"there is no Python {version} here")


@pytest.fixture(scope="session")
def reader() -> pathlib.Path:
    assert shutil.which(BAZEL[0]), f"{BAZEL[0]} not found; run tools/setup"
    subprocess.run([*BAZEL, "build", "--noshow_progress", "--ui_event_filters=-info", TARGET], cwd=ROOT, check=True)
    return ROOT / ".bazel" / "bin" / "tests" / "bindings" / "python_stack_reader.so"


def output_of(python: str, program: str, argument: pathlib.Path) -> str:
    done = subprocess.run([python, HERE / program, argument], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_stack_is_what_python_says(reader, python):
    # Waits for ever if frames cannot be read while another thread holds the interpreter's lock.
    assert int(output_of(python, "python_stack_program.py", reader)) == 20


def test_dead_variables_are_those_that_the_source_says(python):
    output_of(python, "liveness_program.py", PACKAGE)


def test_variables_that_were_looked_at_are_as_they_were(python):
    output_of(python, "frame_variables_program.py", PACKAGE)

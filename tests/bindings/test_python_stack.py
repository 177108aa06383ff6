"""The lines of Python that memory is attributed to are those that Python itself names, in every Python that is here;
and they are read while another thread holds the interpreter's lock."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))
TARGET = "//tests/bindings:python_stack_reader.so"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def find_python(version: str) -> str | None:
    """One that runs: a manager of versions may have a command for one that is not there."""
    here = "{}.{}".format(*sys.version_info)
    candidates = [sys.executable] if version == here else []
    candidates += [shutil.which(f"python{version}") or ""]
    candidates += map(str, pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return candidate
    return None


@pytest.fixture(scope="session")
def reader() -> pathlib.Path:
    assert shutil.which(BAZEL[0]), f"{BAZEL[0]} not found; run tools/setup"
    subprocess.run([*BAZEL, "build", "--noshow_progress", "--ui_event_filters=-info", TARGET], cwd=ROOT, check=True)
    return ROOT / ".bazel" / "bin" / "tests" / "bindings" / "python_stack_reader.so"


@pytest.mark.parametrize("version", VERSIONS)
def test_stack_is_what_python_says(reader, version):
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    command = [python, HERE / "python_stack_program.py", reader]
    # Waits for ever if frames cannot be read while another thread holds the interpreter's lock.
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 20

"""Every Python from 3.10 on that is at hand has the package; ruff looks after the grammar of the oldest."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import frugal_alloc
import pytest
import simulated_gpu

PACKAGES = [Path(package.__file__).parents[1] for package in (frugal_alloc, simulated_gpu)]
OLDEST, NEWEST = 10, 14
# Prints the modules that could not be imported, in a Python that has nothing installed.
IMPORT_ALL = """
import importlib, pathlib, sys
sys.path[:0] = sys.argv[1:]
for root, package in zip(sys.argv[1:], ("frugal_alloc", "simulated_gpu")):
    for path in sorted(pathlib.Path(root, package).glob("**/*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        # What starts programs; and what other programs load, which need libraries of their own.
        if parts[-1] in ("__main__", "sitecustomize") or parts[1] in ("integrations", "pytest_plugin", "_lib"):
            continue
        try:
            importlib.import_module(".".join(parts))
        except ModuleNotFoundError as error:
            if error.name.partition(".")[0] not in ("torch", "rich", "numpy", "jinja2", "pytest"):
                raise
"""


def interpreter(minor: int) -> str:
    """The CPython 3.`minor` of this machine; skips the test where there is none."""
    candidates = [
        shutil.which(f"python3.{minor}"),
        *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}"),
    ]
    for candidate in filter(None, candidates):
        version = [candidate, "-c", "import sys; print(sys.version_info[1])"]
        if subprocess.run(version, capture_output=True, text=True).stdout.strip() == str(minor):
            return str(candidate)
    pytest.skip(f"there is no Python 3.{minor} here")


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_package_imports_and_reports(minor: int) -> None:
    python = interpreter(minor)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_"))}
    command = [python, "-W", "error", "-B", "-I"]
    done = subprocess.run([*command, "-c", IMPORT_ALL, *PACKAGES], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = "import sys; sys.path[:0] = sys.argv[2:]; from frugal_alloc._command import cli; cli.main(sys.argv[1:2])"
    arguments = ["-c", run, "doctor", *PACKAGES]
    done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"3.{minor}." in done.stdout.splitlines()[0]

"""What each file of tests takes is written down, whichever worker ran it, and the longest begin first."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
TEST = """
import pathlib
def test_one():
    with open(pathlib.Path(__file__).parent / "order", "a") as order:
        print(pathlib.Path(__file__).stem, file=order)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests").mkdir()
    shutil.copy(CONFTEST, tmp_path / "tests")
    for name in ("test_a", "test_b", "test_c"):
        (tmp_path / "tests" / f"{name}.py").write_text(TEST)
    return tmp_path


def run(checkout: Path, *options: str) -> list[str]:
    """Runs all tests there by one worker; their files in the order in which they were run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1", "--dist", "worksteal"]
    line = [*command, *options, "tests"]
    done = subprocess.run(line, cwd=checkout, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return (checkout / "tests" / "order").read_text().split()


def test_recording_has_every_file_that_was_run_and_none_that_is_gone(checkout: Path) -> None:
    durations = checkout / "tests" / "durations.json"
    durations.write_text(json.dumps({"tests/test_gone.py": 3, "tests/test_a.py": 70}))
    run(checkout, "--record-durations")
    recorded = json.loads(durations.read_text())
    assert set(recorded) == {"tests/test_a.py", "tests/test_b.py", "tests/test_c.py"}
    assert recorded["tests/test_a.py"] < 70


def test_longest_on_record_begin_first(checkout: Path) -> None:
    seconds = {"tests/test_a.py": 1, "tests/test_b.py": 30, "tests/test_c.py": 40}
    (checkout / "tests" / "durations.json").write_text(json.dumps(seconds))
    assert run(checkout) == ["test_c", "test_b", "test_a"]


def test_without_a_record_the_tests_run_as_they_are_collected(checkout: Path) -> None:
    assert run(checkout) == ["test_a", "test_b", "test_c"]

"""Driver calls fail while a whole recording is played; the unit tests of `tests/faults` play short ones.

FRUGAL_FAULTS_RECORDINGS names others, FRUGAL_FAULTS_ROUNDS how often each is played in each way.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from frugal_alloc._planning.replay import history_files

from bench.generators import recorder

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = os.environ.get("FRUGAL_FAULTS_RECORDINGS", "mosaic").split()
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))
ROUNDS = os.environ.get("FRUGAL_FAULTS_ROUNDS", "20")


@pytest.fixture(scope="module")
def program() -> Path:
    # The latest build may have been another, with sanitizers.
    target = "//tests/faults:calls_fail_often_test"
    subprocess.run([*BAZEL, "build", "--noshow_progress", "--ui_event_filters=-info", target], cwd=ROOT, check=True)
    return ROOT / ".bazel" / "bin" / "tests" / "faults" / "calls_fail_often_test"


@pytest.mark.parametrize("name", RECORDINGS)
def test_calls_that_fail_in_a_whole_recording_lose_nothing(program: Path, name: str, tmp_path: Path) -> None:
    recorder.write(history_files.read(history_files.find(name)), tmp_path / f"{name}.json")
    knobs = {"FRUGAL_FAULTS_HISTORIES": str(tmp_path), "FRUGAL_FAULTS_ROUNDS": ROUNDS}
    done = subprocess.run(
        [str(program), "--gtest_brief=1"], env=os.environ | knobs, capture_output=True, text=True, timeout=3600
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"COUNTS {name}, three calls" in done.stdout

"""What tools/test and .ci/run make of steps that fail, and what their steps see.

Both are run as they are; all that they call is made up.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Stands for what a step runs: notes how it was called, and fails where that is in the list of what fails.
STANDIN = f"""#!{sys.executable}
import json, os, pathlib, sys
here = pathlib.Path(__file__).resolve().parent
call = " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]])
with open(here / "calls", "a") as file:
    print(json.dumps([call, dict(os.environ)]), file=file)
if "map_of_tests.py" in call:
    print("//tests/cuda:all", "//tests/devices:all", "tests/cli", "tests/top/test_layout.py", sep="\\n")
sys.exit(3 if any(part in call for part in (here / "fails").read_text().splitlines()) else 0)
"""
WHEEL = f"frugal_alloc-0.0.0-py3-none-linux_{os.uname().machine}.whl"
LOGS = ("faults/some_test", "load/some_test", "order/some_test", "shadow/shadow_test")


class Checkout:
    """A folder with one command, and stand-ins for all that it calls."""

    def __init__(self, folder: Path, command: str) -> None:
        self.folder = folder
        self._command = command
        (folder / "standin.py").write_text(STANDIN)
        (folder / "standin.py").chmod(0o755)
        (folder / command).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / command, folder / command)
        called = {"tools/setup", "tools/lint", "tools/test", ".venv/bin/python", "bazel"}
        for name in called - {command}:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(folder / "standin.py")
        for name in LOGS:
            (folder / ".bazel" / "testlogs" / "tests" / name).mkdir(parents=True)
            (folder / ".bazel" / "testlogs" / "tests" / name / "test.log").write_text("COUNTS 5 operations\n")
        (folder / "dist").mkdir()
        (folder / "dist" / WHEEL).touch()

    def run(self, *arguments: str, fails: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "fails").write_text(fails)
        (self.folder / "calls").write_text("")
        environment = {"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder)} | variables
        line = [self.folder / self._command, *arguments]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=600)

    def calls(self) -> list[tuple[str, dict[str, str]]]:
        """What the stand-ins were called with, and their environment."""
        return [tuple(json.loads(line)) for line in (self.folder / "calls").read_text().splitlines()]

    def called(self, part: str) -> bool:
        return any(part in call for call, _ in self.calls())


@pytest.fixture
def tools_test(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path, "tools/test")


PYTEST = "python -m pytest"


def test_all_that_passes_ends_with_status_0(tools_test: Checkout) -> None:
    done = tools_test.run()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("tools/test: all passed in ")
    assert tools_test.called(PYTEST) and tools_test.called("bazel test")


def test_after_a_step_that_fails_the_others_run_and_the_end_names_it(tools_test: Checkout) -> None:
    done = tools_test.run(fails="lint --no-tidy\nbazel test --nos")
    assert done.returncode == 1
    assert re.findall("FAILED: (.+)", done.stderr) == ["format and limits", "unit tests", "the simulated GPU"]
    assert tools_test.called(PYTEST) and tools_test.called("bazel build")


def test_what_needs_a_step_that_failed_is_not_run_which_the_end_says(tools_test: Checkout) -> None:
    done = tools_test.run(fails="bazel build")
    assert (done.returncode, done.stderr) == (1, "\ntools/test: FAILED: build\n")
    assert "  the rest: it needs what failed: build\n" in ran_and_did_not(done)[1]
    assert not tools_test.called("bazel test") and not tools_test.called(PYTEST)


def ran_and_did_not(done: subprocess.CompletedProcess[str]) -> tuple[list[str], str]:
    """The names of the steps that the end says were run, and its lines of what was not."""
    ran, not_run = done.stdout.split("tools/test ran, in seconds by the clock:\n")[1].split("tools/test did not run:\n")
    return re.findall(r"^ +\d+ s  (.+)$", ran, re.MULTILINE), not_run


def test_the_end_says_what_was_run_and_by_what_the_rest_can_be(tools_test: Checkout) -> None:
    ran, not_run = ran_and_did_not(tools_test.run())
    assert ran[:4] == ["setup", "format and limits", "build", "unit tests"] and len(ran) == 7
    for command in ("test --all", "lint", "test --thorough", "test --newest", "odd_surroundings"):
        assert f": tools/{command}" in not_run


def test_all_tests_are_those_that_the_usual_ones_leave_out_too(tools_test: Checkout) -> None:
    for options in ([], ["--all"]):
        done = tools_test.run(*options)
        *_, call = ((call, environment) for call, environment in tools_test.calls() if PYTEST in call)
        left_out, variable = ("--ignore=tests/versions" in call[0], call[1].get("FRUGAL_TEST_ALL"))
        assert (left_out, variable) == ((False, "1") if options else (True, None))
        assert tools_test.called("tools/wheel") == tools_test.called("--test_env=FRUGAL_TEST_ALL") == bool(options)
        assert (": tools/test --all\n" in ran_and_did_not(done)[1]) != bool(options)


def test_within_minutes_what_would_take_longer_is_not_run_and_is_named(tools_test: Checkout) -> None:
    done = tools_test.run("--thorough", "--minutes", "7")
    assert done.returncode == 0, done.stderr
    ran, not_run = ran_and_did_not(done)
    assert "threads under ThreadSanitizer" in ran and "clang-tidy" not in ran
    assert "clang-tidy: (for want of time)\n" in not_run
    assert not tools_test.called("--config=asan")


def test_quick_tests_are_those_chosen(tools_test: Checkout) -> None:
    done = tools_test.run("--quick", "cuda")
    assert done.returncode == 0, done.stderr
    assert tools_test.called("map_of_tests.py cuda")
    assert ran_and_did_not(done)[0] == ["format and limits", "unit tests", "libraries", "Python tests"]
    assert tools_test.called("//tests/cuda:all //tests/devices:all")
    (python,) = (call for call, _ in tools_test.calls() if PYTEST in call)
    assert python.endswith(" tests/cli tests/top/test_layout.py")
    assert not tools_test.called("setup")


def test_quick_tests_of_what_is_not_covered_are_refused(tools_test: Checkout) -> None:
    done = tools_test.run("--quick", "nowhere", fails="map_of_tests.py nowhere")
    assert (done.returncode, done.stdout) == (2, "")


def test_tests_before_a_change_see_home_path_and_language_alone(tmp_path: Path) -> None:
    ci_run = Checkout(tmp_path, ".ci/run")
    assert ci_run.run(FRUGAL_ALLOC="1", HTTPS_PROXY="http://proxy:1").returncode == 0
    seen = {call: environment for call, environment in ci_run.calls() if call.split()[0] == "test"}
    assert [re.sub(r"(?<=minutes )(73|74|75)$", "LEFT", call) for call in seen] == [
        "test --all",
        "test --thorough --minutes LEFT",
        "test --newest",
    ]
    for environment in seen.values():
        assert set(environment) - {"PWD", "SHLVL", "_", "LC_CTYPE"} == {"HOME", "PATH", "LANG"}

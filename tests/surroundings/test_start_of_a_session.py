"""A session of tests starts from the same surroundings, whatever started it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[2] / "conftest.py"
# After what a runner may do to its children, what a child of the session's finds.
ODD_START = """
import os, runpy, signal, subprocess, sys
number = getattr(signal, sys.argv[2])
{odd}
runpy.run_path(sys.argv[1])
found = "import signal, sys; print(signal.pthread_sigmask(0, []), signal.getsignal(int(sys.argv[1])) == signal.SIG_IGN)"
print(subprocess.run([sys.executable, "-c", found, str(int(number))], capture_output=True, text=True).stdout, end="")
"""
IGNORED = "signal.signal(number, signal.SIG_IGN)"


@pytest.mark.parametrize(
    "name, odd, found",
    [
        *((name, IGNORED, "set() False\n") for name in ("SIGINT", "SIGCHLD", "SIGUSR1")),
        ("SIGTERM", "signal.pthread_sigmask(signal.SIG_BLOCK, {number})", "set() False\n"),
        # Tests under nohup survive the hangup.
        ("SIGHUP", IGNORED, "set() True\n"),
    ],
)
def test_what_tests_start_neither_ignores_nor_blocks_a_signal_but_a_hangup(name: str, odd: str, found: str) -> None:
    command = [sys.executable, "-c", ODD_START.format(odd=odd), str(CONFTEST), name]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout == found


SETTINGS = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONHASHSEED": "7",
    "PYTHONWARNINGS": "error",
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "FRUGAL_ALLOC": "1",
    "FRUGAL_ALLOC_CONF": "memory_limit:1MiB",
    "CMAKE_PREFIX_PATH": "/elsewhere",
    "PYTEST_ADDOPTS": "-x",
    "COLUMNS": "40",
}
KEPT = {
    "HOME": "/home/somebody",
    "TZ": "Pacific/Chatham",
    "LC_ALL": "C",
    "CUDA_VISIBLE_DEVICES": "1",
    "PYTHONPATH": "/packages",
    "FRUGAL_TEST_SEED": "2",
    "FRUGAL_FAULTS_ROUNDS": "1",
    "FRUGAL_SIM_LATE": "1",
}


def test_settings_that_change_programs_are_dropped_and_the_rest_is_kept() -> None:
    environment = SETTINGS | KEPT
    runpy.run_path(str(CONFTEST))["drop_settings"](environment)
    assert environment == KEPT

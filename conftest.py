"""What holds for every test: a session starts from the same surroundings, whoever starts it and how.

What a shell or a runner hands on to its children (what signals do, variables) would reach each program that a test
starts. A test that is about such a thing sets it itself. The folder, the locale, the time zone, the umask and the user
are left as they are: tests hold in any, and tools/odd_surroundings runs them in odd ones.
"""

from __future__ import annotations

import os
import signal
from collections.abc import MutableMapping

import pytest

# What the tests read themselves, and what docs/simulated_gpu_inside.md lets a session say of the simulated GPU.
_KNOBS = ("FRUGAL_TEST_", "FRUGAL_FAULTS_", "FRUGAL_ORDER_", "FRUGAL_FUZZ_", "FRUGAL_SIM_")
# Of Python's, these say where things are, and nothing about how a program behaves.
_PLACES = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE")
# The settings of Python, PyTorch, CMake and pytest, and of this package.
_SETTINGS = ("FRUGAL_", "PYTHON", "PYTORCH_", "TORCH_", "CMAKE_", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")
_ALSO = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING"}


def reset_signals() -> None:
    """Has children start with what an interactive shell gives them.

    What a script starts in its background ignores interrupts. Where the end of children is ignored, their status is
    lost. A hangup stays ignored, if it is: nohup has asked for that.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def drop_settings(environment: MutableMapping[str, str]) -> None:
    """Takes out what changes how programs behave, and is no knob of the tests."""
    for name in list(environment):
        if (name.startswith(_SETTINGS) or name in _ALSO) and not name.startswith(_KNOBS) and name not in _PLACES:
            del environment[name]


reset_signals()
drop_settings(os.environ)
# Wherever a test puts a program on the simulated GPU, that is as strict as hardware. Who says otherwise is heard.
os.environ.setdefault("FRUGAL_SIM_STRICT", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here for all that know it, so that they can be in one session.
    parser.addoption("--accept", action="store_true", help="write down the present figures and outputs")

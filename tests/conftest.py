"""What holds for every test: a session starts from the same surroundings, whoever starts it and how.

What a shell or a runner hands on to its children (what signals do, variables) would reach each program that a test
starts. A test that is about such a thing sets it itself. The folder, the locale, the time zone, the umask and the user
are left as they are: tests hold in any, and tools/odd_surroundings runs them in odd ones.
"""

from __future__ import annotations

import collections
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Seconds of CPU by file, which are about the same on a busy machine. They decide about order and choice alone: no test
# is judged by them.
DURATIONS = ROOT / "tests" / "durations.json"
UNKNOWN_SECONDS = 20  # of a file that is not on record

# What the tests read themselves, and what docs/simulated_gpu.md lets a session say of the simulated GPU.
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
    parser.addoption("--record-durations", action="store_true", help="write down what each file took: durations.json")
    # Here for all that know it, so that they can be in one session.
    parser.addoption("--accept", action="store_true", help="write down the present figures and outputs")


def pytest_configure(config: pytest.Config) -> None:
    # In a session of several workers the one that hands out the tests writes, and it runs none.
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def cpu_seconds() -> float:
    """Of this process, of those that it has waited for, and of those that servers have forked for it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    servers = sys.modules.get("fork_server")
    return sum(one.ru_utime + one.ru_stime for one in used) + (servers.cpu_seconds() if servers is not None else 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Has the report of a test's end say what the test took, whichever process it ran in."""
    if call.when == "teardown":
        item.user_properties.append(("cpu seconds", cpu_seconds() - item.stash[_BEFORE]))
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEFORE] = cpu_seconds()


_BEFORE = pytest.StashKey[float]()


class Durations:
    """What the files of this session took, for durations.json."""

    def __init__(self) -> None:
        self._seconds: collections.Counter[str] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._seconds[report.nodeid.split("::")[0]] += dict(report.user_properties)["cpu seconds"]

    def pytest_sessionfinish(self) -> None:
        known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        known |= {file: round(seconds, 1) for file, seconds in self._seconds.items()}
        kept = {file: seconds for file, seconds in sorted(known.items()) if (ROOT / file).exists()}
        DURATIONS.write_text(json.dumps(kept, indent=2) + "\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Has the longest files begin first where several workers share them, so that none is left over at the end.

    The files of a folder stay together, since they use the same servers.
    """
    if hasattr(config, "workerinput") and DURATIONS.exists():
        seconds = json.loads(DURATIONS.read_text())
        taken = {file: seconds.get(file, UNKNOWN_SECONDS) for file in (item.nodeid.split("::")[0] for item in items)}
        folders: collections.Counter[str] = collections.Counter()
        for file, many in taken.items():
            folders[file.rpartition("/")[0]] += many
        files = sorted(
            taken, key=lambda file: (-folders[file.rpartition("/")[0]], file.rpartition("/")[0], -taken[file])
        )
        items.sort(key=lambda item: files.index(item.nodeid.split("::")[0]))

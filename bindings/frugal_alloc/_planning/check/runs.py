"""Runs a command on the simulated GPU and gathers what its tests and processes took."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import simulated_gpu
from simulated_gpu import gpu_choice

from ..._common import shapes
from ..._common.arguments import Interrupted
from .. import followed, following
from .baseline import PROCESS, TEST, Figures, Setting, WrittenFigures
from .comparison import Run

_PLUGIN = "frugal_alloc_check_plugin"


def run(command: Sequence[str], setting: Setting, root: str, own_stdout: bool) -> Run:
    """
    Args:
        root: The folder that files are told relative to.
        own_stdout: Whether the command's output goes to stderr instead.

    Raises:
        SimulationError: the command cannot be run so.
        Interrupted: a signal came that ends programs, whether or not the command has ended by it.
        ValueError: what was recorded is damaged.
    """
    output = simulated_gpu.Output.ERRORS if own_stdout else simulated_gpu.Output.SHOWN
    with tempfile.TemporaryDirectory(prefix="frugal-check-") as folder:
        environment = _environment(setting, root, folder)
        try:
            ended = following.run(command, environment, folder, output)
        except simulated_gpu.SimulationError as error:
            hint = "; leave them out by --values none" if "values" in str(error) else ""
            raise simulated_gpu.SimulationError(f"{error}{hint}") from None
    if ended.signal is not None:
        by = "" if ended.signal == signal.SIGINT else f" by {signal.Signals(ended.signal).name}"
        raise Interrupted(f"interrupted{by}", 128 + ended.signal)
    return _gather(ended)


def _environment(setting: Setting, root: str, folder: str) -> dict[str, str]:
    base = dict(os.environ)
    # Of the test that runs this command, if one does: its children would be told as the test's.
    base.pop("PYTEST_CURRENT_TEST", None)
    # The order of sets would differ from run to run, and with it that of allocations.
    base.setdefault("PYTHONHASHSEED", "0")
    base["PYTEST_PLUGINS"] = ",".join(filter(None, [base.get("PYTEST_PLUGINS", ""), _PLUGIN]))
    if setting.gpu is not None:
        base |= gpu_choice.choose(argparse.Namespace(gpu=setting.gpu, memory=None, gpus=setting.gpus), base)[1]
    base = followed.put(base, "_planning.check.recorder", folder, setting.allocator, root=os.path.realpath(root))
    return simulated_gpu.environment(setting.memory, setting.gpus, setting.values, base=base)


@dataclasses.dataclass(frozen=True)
class _Record:
    """What a process says of a test, of a fixture, or of itself at its end."""

    name: str
    kind: str
    passed: bool = True
    failed: bool = False
    figures: WrittenFigures | None = None


def _gather(ended: following.Ended) -> Run:
    records = [shapes.read(_Record, message) for message in ended.messages if "kind" in message]
    tests = [record for record in records if record.kind == TEST]
    not_passed = frozenset(test.name for test in tests if not test.passed)
    lists = [message for message in ended.messages if "tests" in message]
    are_chosen = any(message["chosen"] for message in lists)
    return Run(
        status=ended.status,
        records=_figures_by_name(record for record in records if record.passed and record.figures is not None),
        passed=frozenset(test.name for test in tests) - not_passed,
        not_passed=not_passed,
        failed=frozenset(test.name for test in tests if test.failed),
        collected=None if are_chosen else frozenset(name for message in lists for name in message["tests"]),
        torch=max((message["torch"] for message in ended.messages if "torch" in message), default=""),
        failures=tuple(sorted({message["failure"] for message in ended.messages if "failure" in message})),
    )


def _figures_by_name(records: Iterable[_Record]) -> dict[str, Figures]:
    """The most of a fixture that several workers have made, or of a test that was run again."""
    by_name: dict[str, Figures] = {}
    processes = []
    for record in records:
        known = by_name.get(record.name)
        if record.kind == PROCESS:
            processes.append(record)
        elif known is None or (record.figures.peak or 0) >= (known.peak or 0):
            by_name[record.name] = record.figures
    return by_name | dict(_named_apart(processes))


def _named_apart(processes: list[_Record]) -> Iterator[tuple[str, Figures]]:
    """Processes of one name get numbers, by what they took: which was first may differ from run to run."""
    counts: dict[str, int] = {}
    for name, figures in sorted(
        ((process.name, process.figures) for process in processes),
        key=lambda process: (process[0], -(process[1].peak or 0), -(process[1].gpu or 0)),
    ):
        counts[name] = counts.get(name, 0) + 1
        yield (name if counts[name] == 1 else f"{name} ({counts[name]})"), figures

"""Runs a command on the simulated GPU and gathers what its tests and processes took."""

from __future__ import annotations

import dataclasses
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

from ..._common import shapes
from ..._simulation import simulated_gpu
from ..._simulation.followed import order
from ..._simulation.followed import runs as followed_runs
from ..._simulation.followed.runs import Message
from .baseline import Setting
from .figures import Figures

ALLOCATORS = ("native", "expandable", "frugal")
_PLUGIN = "frugal_alloc_check_plugin"


class Interrupted(Exception):
    """Somebody has ended the run, so its figures are not whole; `status` is the one to end with."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted" if number == signal.SIGINT else f"interrupted by {signal.Signals(number).name}")
        self.status = 128 + number


class Run(NamedTuple):
    """What came of it."""

    status: int
    #: By the names of tests, of fixtures that several share, and of processes.
    records: Mapping[str, Figures]
    #: Tests that passed, with or without memory of the GPU; and those that failed or were skipped.
    passed: frozenset[str]
    not_passed: frozenset[str]
    failed: frozenset[str]
    #: Every test that was found, run or not; None: tests were chosen one by one, so there may be others.
    collected: frozenset[str] | None
    #: Of PyTorch; "" where it was not imported.
    torch: str
    #: Why figures are missing.
    failures: tuple[str, ...]

    @property
    def is_of_tests(self) -> bool:
        return bool(self.passed or self.not_passed)


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
            ended = followed_runs.run(command, environment, folder, output)
        except simulated_gpu.SimulationError as error:
            hint = "; leave them out by --values none" if "values" in str(error) else ""
            raise simulated_gpu.SimulationError(f"{error}{hint}") from None
        if ended.signal is not None:
            raise Interrupted(ended.signal)
        return _gather(ended.status, ended.messages)


def _environment(setting: Setting, root: str, folder: str) -> dict[str, str]:
    base = dict(os.environ)
    # Of the test that runs this command, if one does: its children would be told as the test's.
    base.pop("PYTEST_CURRENT_TEST", None)
    # The order of sets would differ from run to run, and with it that of allocations.
    base.setdefault("PYTHONHASHSEED", "0")
    base["PYTEST_PLUGINS"] = ",".join(filter(None, [base.get("PYTEST_PLUGINS", ""), _PLUGIN]))
    base = order.put(base, "_command.check.recorder", folder, setting.allocator, root=os.path.realpath(root))
    return simulated_gpu.environment(setting.memory, setting.gpus, setting.values, base=base)


@dataclasses.dataclass(frozen=True)
class _Record:
    """What a process says of a test, of a fixture, or of itself at its end."""

    name: str
    kind: str
    passed: bool = True
    failed: bool = False
    figures: Annotated[Figures, Figures.with_released] | None = None


def _gather(status: int, messages: Iterable[Message]) -> Run:
    passed, not_passed, failed, processes = set(), set(), set(), []
    records: dict[str, Figures] = {}
    collected: set[str] | None = set()
    failures, versions = set(), {""}
    for message in messages:
        if "failure" in message:
            failures.add(message["failure"])
        elif "tests" in message:
            collected = None if message["chosen"] or collected is None else {*collected, *message["tests"]}
        elif "torch" in message:
            versions.add(message["torch"])
        else:
            record = shapes.read(_Record, message)
            if record.kind == "test":
                (passed if record.passed else not_passed).add(record.name)
                if record.failed:
                    failed.add(record.name)
            if record.figures is None or not record.passed:
                continue
            if record.kind == "process":
                processes.append((record.name, record.figures))
            else:
                records[record.name] = _most(records.get(record.name), record.figures)
    records.update(_named_apart(processes))
    return Run(
        status,
        records,
        frozenset(passed - not_passed),
        frozenset(not_passed),
        frozenset(failed),
        None if collected is None else frozenset(collected),
        max(versions),
        tuple(sorted(failures)),
    )


def _most(before: Figures | None, figures: Figures) -> Figures:
    """Of a fixture that several workers have made; or a test that was run again."""
    return figures if before is None or (figures.peak or 0) >= (before.peak or 0) else before


def _named_apart(processes: list[tuple[str, Figures]]) -> Iterator[tuple[str, Figures]]:
    """Processes of one name get numbers, by what they took: which was first may differ from run to run."""
    counts: dict[str, int] = {}
    for name, figures in sorted(
        processes, key=lambda process: (process[0], -(process[1].peak or 0), -(process[1].gpu or 0))
    ):
        counts[name] = counts.get(name, 0) + 1
        yield (name if counts[name] == 1 else f"{name} ({counts[name]})"), figures

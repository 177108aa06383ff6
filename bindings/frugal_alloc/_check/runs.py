"""Runs a command on the simulated GPU and gathers what its tests and processes took."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._common import startup
from .._simulation import simulated_gpu
from .baseline import Setting
from .figures import Figures

ALLOCATORS = ("native", "expandable", "frugal")
_PLUGIN = "frugal_alloc_check_plugin"
# Newer versions of PyTorch read the first.
_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


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
    found: frozenset[str] | None
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
    """
    output = simulated_gpu.Output.ERRORS if own_stdout else simulated_gpu.Output.SHOWN
    with tempfile.TemporaryDirectory(prefix="frugal-check-") as folder:
        base = _with_recorder(os.environ, setting, root, folder)
        environment = simulated_gpu.environment(setting.memory, setting.gpus, setting.values, base=base)
        signals: list[int] = []
        try:
            status = simulated_gpu.run_in(command, environment, output, signals.append)
        except simulated_gpu.SimulationError as error:
            hint = "; leave them out by --values none" if "values" in str(error) else ""
            raise simulated_gpu.SimulationError(f"{error}{hint}") from None
        for number in signals:
            if number in simulated_gpu.ENDING_SIGNALS:
                raise Interrupted(number)
        return _gather(status, [_read(path) for path in sorted(Path(folder).iterdir())])


def _with_recorder(base: Mapping[str, str], setting: Setting, root: str, folder: str) -> dict[str, str]:
    result = {**base, "FRUGAL_CHECK_FOLDER": folder, "FRUGAL_CHECK_ROOT": os.path.realpath(root)}
    # Of the test that runs this command, if one does: its children would be told as the test's.
    result.pop("PYTEST_CURRENT_TEST", None)
    # The order of sets would differ from run to run, and with it that of allocations.
    result.setdefault("PYTHONHASHSEED", "0")
    if setting.allocator == "frugal":
        result["FRUGAL_ALLOC"] = "1"
        startup.add("allocator", result)
    elif setting.allocator == "expandable":
        for name in _SETTINGS:
            others = [one for one in result.get(name, "").split(",") if one and "expandable_segments" not in one]
            result[name] = ",".join([*others, "expandable_segments:True"])
    startup.add("check", result)
    result["PYTEST_PLUGINS"] = ",".join(filter(None, [result.get("PYTEST_PLUGINS", ""), _PLUGIN]))
    return result


def _read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file: a process that was killed may have left half of one."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _gather(status: int, files: list[list[dict[str, Any]]]) -> Run:
    passed, not_passed, failed, processes = set(), set(), set(), []
    records: dict[str, Figures] = {}
    found: set[str] | None = set()
    failures, versions = set(), {""}
    for record in (record for file in files for record in file):
        if "failure" in record:
            failures.add(record["failure"])
        elif "tests" in record:
            found = None if record["chosen"] or found is None else {*found, *record["tests"]}
        elif "torch" in record:
            versions.add(record["torch"])
        else:
            figures = Figures.from_values(record["figures"]) if "figures" in record else None
            if record["kind"] == "process":
                processes.append((record["name"], figures))
                continue
            if record["kind"] == "test":
                (passed if record["passed"] else not_passed).add(record["name"])
                if record["failed"]:
                    failed.add(record["name"])
            if figures is not None and record["passed"]:
                records[record["name"]] = _most(records.get(record["name"]), figures)
    records.update(_named_apart(processes))
    return Run(
        status,
        records,
        frozenset(passed - not_passed),
        frozenset(not_passed),
        frozenset(failed),
        None if found is None else frozenset(found),
        max(versions),
        tuple(sorted(failures)),
    )


def _most(before: Figures | None, figures: Figures) -> Figures:
    """Of a fixture that several workers have made; or a test that was run again."""
    return figures if before is None or (figures.peak or 0) >= (before.peak or 0) else before


def _named_apart(processes: list[tuple[str, Figures]]) -> Iterator[tuple[str, Figures]]:
    """Processes of one name get numbers, by what they took: which was first may differ from run to run."""
    counts: dict[str, int] = {}
    for name, figures in sorted(processes, key=lambda one: (one[0], -(one[1].peak or 0), -(one[1].gpu or 0))):
        counts[name] = counts.get(name, 0) + 1
        yield (name if counts[name] == 1 else f"{name} ({counts[name]})"), figures

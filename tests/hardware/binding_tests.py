"""P6: the binding tests on this GPU, each file and moment in a process of its own, in order of value."""

from __future__ import annotations

import collections
import os
import re
import sys
from pathlib import Path

from frugal_alloc._command.doctor import processes
from frugal_alloc._command.doctor.step import CannotTell, StepReport

from . import kit

#: What can go wrong on a GPU, by value for its seconds; the others follow.
FIRST = (
    "test_streams.py",
    "test_out_of_memory.py",
    "test_tensors.py",
    "test_place.py",
    "test_sleep.py",
    "test_switches.py",
    "test_mem_pools.py",
    "test_sharing.py",
    "test_processes.py",
    "test_private_pools.py",
    "test_toggle.py",
    "test_strangers.py",
    "test_statistics.py",
    "test_same_as_native.py",
)
#: About Python, or on simulated GPUs of their own.
LEFT_OUT = (
    "test_every_python.py",
    "test_module_variables.py",
    "test_segments.py",
    "test_unified_memory.py",
)
_MOST_SECONDS_AN_ITEM = 150.0
_LEAST_SECONDS = 10.0
_SECONDS_TO_COLLECT = 60.0
OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider")
_ITEM = re.compile(r"^(?:.*/)?(test_\w+\.py)::(.+)$", re.MULTILINE)
#: The last line of a pytest, which counts what it knows of: "1 failed, 2 passed, 3 skipped in 0.45s".
_SUMMARY = re.compile(r"^.*\b\d+ \w+.* in [\d.]+s.*$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|skipped)\b")
_REASON = re.compile(r"^SKIPPED \[\d+\] .*?:\d+: (.+)$", re.MULTILINE)


def run(report: StepReport) -> None:
    folder, variables = kit.ROOT / "tests" / "bindings", environment(report)
    items = _items(folder, variables)
    if report.simulated:
        report.not_shown(f"{len(items) - 1} more", "tools/test runs them on the simulated GPU")
    for file, item in items[:1] if report.simulated else items:
        name, seconds = f"{file} {item}", min(_MOST_SECONDS_AN_ITEM, report.seconds_left())
        if seconds < _LEAST_SECONDS:
            report.skip(name, "no time was left")
        else:
            _carry_out(report, name, f"{folder / file}::{item}", seconds, variables)


def environment(report: StepReport) -> dict[str, str]:
    result = kit.with_pytest(os.environ)
    if report.simulated:
        result["FRUGAL_TEST_MEMORY"] = os.environ["FRUGAL_SIM_MEMORY"]
    else:
        result["FRUGAL_TEST_GPU"] = "real" if report.fills_the_device else "shared"
    return result


def _items(folder: Path, environment: dict[str, str]) -> list[tuple[str, str]]:
    """Files with the moments at which frugal_alloc is enabled in them. Each file at its first moment, before any at
    another."""
    command = [sys.executable, "-m", "pytest", "--collect-only", *OPTIONS, folder]
    ended = processes.run(command, _SECONDS_TO_COLLECT, environment)
    moments: dict[str, list[str]] = collections.defaultdict(list)
    for file, item in _ITEM.findall(ended.out):
        if file not in LEFT_OUT:
            moments[file].append(item)
    if not moments:
        raise CannotTell(f"pytest finds no binding tests: {ended.said}")
    files = sorted(moments, key=lambda file: (FIRST.index(file) if file in FIRST else len(FIRST), file))
    found = [(place, file, item) for file in files for place, item in enumerate(moments[file])]
    return [(file, item) for _, file, item in sorted(found, key=lambda each: each[0])]


def _carry_out(report: StepReport, name: str, item: str, seconds: float, environment: dict[str, str]) -> None:
    ended = processes.run([sys.executable, "-m", "pytest", *OPTIONS, "-rP", item], seconds, environment, report.folder)
    log = report.folder / f"{re.sub(r'[^a-zA-Z0-9]+', '_', name).strip('_')}.txt"
    log.write_text(ended.out + ended.err)
    passed, skipped, reasons = _counts(ended.out)
    if ended.status is None:
        report.overrun(name)
    elif ended.status != 0:
        failed = [line for line in ended.out.splitlines() if line.startswith(("FAILED", "ERROR"))]
        report.check(name, False, f"{failed[0] if failed else ended.said}; see {log.name}")
    elif skipped and not passed:
        report.skip(name, f"{skipped} skipped: {reasons}")
    else:
        report.check(name, passed > 0, f"{passed} passed, {skipped} skipped")


def _counts(output: str) -> tuple[int, int, str]:
    """How many tests passed and were skipped, and why, of what a pytest has said whose items are pytests."""
    counts = {"passed": 0, "skipped": 0}
    # The last summary is of the items, those before it are of the tests in them.
    for summary in _SUMMARY.findall(output)[:-1]:
        for count, outcome in _COUNT.findall(summary):
            counts[outcome] += int(count)
    return counts["passed"], counts["skipped"], "; ".join(dict.fromkeys(_REASON.findall(output)))

"""P6: the tests of the switches alone, each told as it ends; custom all-reduces have been tried already."""

from __future__ import annotations

import re
import sys

from frugal_alloc._command.doctor import processes
from frugal_alloc._command.doctor.step import CannotTell, StepReport

from . import binding_tests, kit

_SELECTED = "not custom_all_reduce"
_OUTCOME = re.compile(r"^.*::(test_.+) (PASSED|FAILED|ERROR|SKIPPED)\b(.*)$", re.MULTILINE)


def run(report: StepReport) -> None:
    environment = binding_tests.environment(report) | {
        "FRUGAL_TEST_MOMENT": "before CUDA",
        "FRUGAL_TEST_ON_SIMULATED_GPU": "1",
    }
    selected = "test_settings_are_told" if report.simulated else _SELECTED
    command = [sys.executable, "-u", "-m", "pytest", "-v", *binding_tests.OPTIONS[1:], "-k", selected]
    file = kit.ROOT / "tests" / "bindings" / "test_switches.py"
    ended = processes.run([*command, file], report.seconds_left(), environment, report.folder)
    (report.folder / "switches.txt").write_text(ended.out + ended.err)
    found = _OUTCOME.findall(ended.out)
    if not found and ended.status is not None:
        raise CannotTell(f"pytest carries out none of them: {ended.said}")
    for test, outcome, why in found:
        if outcome == "SKIPPED":
            report.skip(test, why.strip() or "as its test says")
        else:
            report.check(test, outcome == "PASSED", f"{outcome.lower()}; switches.txt has what it printed")
    if ended.status is None:
        report.overrun("the tests that are left")
    if report.simulated:
        report.not_shown("the others", "tools/test runs them on the simulated GPU")

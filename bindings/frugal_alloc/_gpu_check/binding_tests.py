"""P6: the binding tests on this GPU, each file in processes of its own, in order of value."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from . import kit, programs
from .step_report import CannotTell, StepReport

#: What can go wrong on a GPU comes first. Left out are those about Python (test_python_stack.py, test_liveness.py), and
#: test_segments.py and test_unified_memory.py, whose GPU must be simulated.
FILES = (
    "test_streams.py",
    "test_out_of_memory.py",
    "test_graphs.py",
    "test_mempool.py",
    "test_foreign_streams.py",
    "test_place.py",
    "test_tensors.py",
    "test_processes.py",
    "test_sharing.py",
    "test_toggle.py",
    "test_peers.py",
    "test_strangers.py",
    "test_disguises.py",
    "test_statistics.py",
    "test_same_as_native.py",
    "test_history.py",
    "test_settings.py",
    "test_installing.py",
    "test_refusals.py",
    "test_explanations.py",
    "test_advice.py",
    "test_error_reports.py",
    "test_repeated_errors.py",
    "test_pool_figures.py",
    "test_large_steps.py",
    "test_journal.py",
    "test_distributed.py",
)
_MOST_SECONDS_A_FILE = 150.0
_LEAST_SECONDS = 10.0
#: tools/test runs them all on the simulated GPU.
_FILES_ON_SIMULATED = 1
_COUNT = re.compile(r"^.*?\b(\d+) passed(?:, (\d+) skipped)?.* in [\d.]+s", re.MULTILINE)


def run(report: StepReport) -> None:
    root = kit.root()
    if root is None:
        raise CannotTell("the tests are not beside the package; run tools/gpu_check pack in a checkout")
    environment = kit.with_pytest(os.environ)
    if report.simulated:
        environment["FRUGAL_TEST_MEMORY"] = os.environ["FRUGAL_SIM_MEMORY"]
    else:
        environment["FRUGAL_TEST_GPU"] = "real" if report.fills_the_device else "shared"
    for number, file in enumerate(FILES):
        seconds = min(_MOST_SECONDS_A_FILE, report.seconds_left())
        if report.simulated and number >= _FILES_ON_SIMULATED:
            report.not_shown(file, "tools/test runs it on the simulated GPU")
        elif seconds < _LEAST_SECONDS:
            report.skip(file, "no time was left")
        else:
            _carry_out(report, root / "tests" / "bindings" / file, seconds, environment)


def _carry_out(report: StepReport, path: Path, seconds: float, environment: dict[str, str]) -> None:
    options = ["-q", "-rP", "--no-header", "-p", "no:cacheprovider"]
    ended = programs.run([sys.executable, "-m", "pytest", *options, path], seconds, environment, report.folder)
    (report.folder / f"{path.stem}.txt").write_text(ended.out + ended.err)
    # The last count is of the processes, those before it of the tests in each.
    counts = _COUNT.findall(ended.out)[:-1]
    passed, skipped = (sum(int(count[which] or 0) for count in counts) for which in (0, 1))
    if ended.status is None:
        programs.say_overrun(report, path.name)
    elif ended.status == 0:
        report.check(path.name, passed > 0, f"{passed} passed, {skipped} skipped")
    else:
        failed = [line for line in ended.out.splitlines() if line.startswith(("FAILED", "ERROR"))]
        said = failed[0] if failed else ended.said
        report.check(path.name, False, f"{said}; see {path.stem}.txt")

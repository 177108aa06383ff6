"""One step, or a function of one, in a process of its own: ``python -m frugal_alloc._command.doctor.child TASK``,
TASK in JSON.

Whatever it raises is said in one line on stderr, with exit status 1.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .step_report import StepFailed, StepReport, one_line

_PR_SET_PDEATHSIG = 1


def is_simulated() -> bool:
    """Whether this process was started on the simulated GPU."""
    return hasattr(ctypes.CDLL(None), "frugal_sim_calls")


def end_with_parent(parent: int) -> None:
    """A runner that is killed leaves nobody behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def started(function: Callable[..., None], *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """A function of a step's module in a process of its own: what it prints is for who has started it.

    Args:
        arguments: which JSON can say.
    """
    task = {"module": function.__module__, "function": function.__name__, "arguments": arguments, "parent": os.getpid()}
    command = [sys.executable, "-u", "-m", "frugal_alloc._command.doctor.child", json.dumps(task)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | environment, text=True, **pipes)


def answer_of(function: Callable[..., None], *arguments: object, **environment: str) -> dict[str, Any]:
    """What it prints in JSON.

    Raises:
        StepFailed: it ends otherwise.
    """
    with started(function, *arguments, **environment) as process:
        said, _ = process.communicate()
    if process.returncode != 0:
        raise StepFailed(f"it ended with status {process.returncode}")
    return json.loads(said)


def main() -> int:
    # Of who has started us some are held up.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    task = json.loads(sys.argv[1])
    end_with_parent(task["parent"])
    # A fault on purpose would write the process's whole memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "function" in task:
        getattr(importlib.import_module(task["module"]), task["function"])(*task["arguments"])
        return 0
    return _carry_out(task)


def _carry_out(task: dict[str, Any]) -> int:
    report = StepReport(
        folder=Path(task["folder"]),
        seconds=task["seconds"],
        share=task["share"],
        simulated=is_simulated(),
        fills_the_device=task["fills_the_device"],
    )
    try:
        importlib.import_module(task["module"]).run(report)
    except Exception as error:
        if report.is_about_us(error):
            report.unknown("all of it", one_line(error))
            return 0
        if isinstance(error, StepFailed):
            print(one_line(error), file=sys.stderr)
            return 1
        # The whole of it is in the step's output.txt; its last line is what the table shows.
        traceback.print_exc()
        print(f"{type(error).__name__}: {one_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(status)

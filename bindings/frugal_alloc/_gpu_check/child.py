"""One step, in a process of its own: ``python -m frugal_alloc._gpu_check.child TASK``, TASK in JSON.

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


def answer_of(module: str, argument: object, **environment: str) -> dict[str, Any]:
    """What a program of the kit, started with the argument and our number, prints in JSON.

    Raises:
        StepFailed: it ends otherwise.
    """
    command = [sys.executable, "-u", "-m", module, str(argument), str(os.getpid())]
    done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise StepFailed(f"it ended with status {done.returncode}")
    return json.loads(done.stdout)


def main() -> int:
    # Of who has started us some are held up.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    task = json.loads(sys.argv[1])
    end_with_parent(task["parent"])
    # A fault on purpose would write the process's whole memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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

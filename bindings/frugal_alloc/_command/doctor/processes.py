"""Processes of a check: those of steps, of a function of one, and of other programs.

As a program, ``python -m frugal_alloc._command.doctor.processes TASK`` with TASK in JSON, it carries out a step, or a
function. Whatever that raises is said in one line on stderr, with exit status 1.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..._common.messages import on_one_line
from .step import StepFailed, StepReport, one_line

#: Before the task, in JSON.
COMMAND = (sys.executable, "-u", "-m", "frugal_alloc._command.doctor.processes")
_PR_SET_PDEATHSIG = 1


def is_simulated() -> bool:
    """Whether this process was started on the simulated GPU."""
    return hasattr(ctypes.CDLL(None), "frugal_sim_calls")


def end_with_parent(parent: int) -> None:
    """A runner that is killed leaves nobody behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


# --- Functions of a step.


def started(function: Callable[..., None], *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """A function of a step's module in a process of its own: what it prints is for who has started it.

    Args:
        arguments: which JSON can say.
    """
    task = {"module": function.__module__, "function": function.__name__, "arguments": arguments, "parent": os.getpid()}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, json.dumps(task)], env=os.environ | environment, text=True, **pipes)


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


# --- Programs.


class Ended(NamedTuple):
    """How a program ended, and what it printed."""

    #: The exit status, negative for a signal; None: it was ended, since its time was over.
    status: int | None
    out: str
    err: str

    @property
    def said(self) -> str:
        """How it ended, in a line."""
        if self.status is None:
            return "not done in its time"
        lines = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        how = f"signal {-self.status}" if self.status < 0 else f"status {self.status}"
        return f"{how}: {on_one_line(lines[-1])[:300]}" if lines else how


def run(
    command: Sequence[str | Path], seconds: float, environment: Mapping[str, str], folder: Path | None = None
) -> Ended:
    """A program, which is ended with all that it started when its time is over. Its output is text, whatever it
    writes."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options: dict[str, Any] = {"text": True, "errors": "replace", "start_new_session": True, **pipes}
    child = subprocess.Popen(list(map(str, command)), env=dict(environment), cwd=folder, **options)
    status: int | None = None
    try:
        out, err = child.communicate(timeout=max(seconds, 0.1))
        status = child.returncode
    except subprocess.TimeoutExpired:
        _end_group(child)
        out, err = child.communicate()
    finally:
        _end_group(child)
    return Ended(status, out, err)


def _end_group(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


# --- This process, which carries out a task.


def main() -> int:
    # Of who has started us some are held up.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    task = json.loads(sys.argv[1])
    end_with_parent(task["parent"])
    # A fault on purpose would write the process's whole memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    module = importlib.import_module(task["module"])
    if "function" in task:
        getattr(module, task["function"])(*task["arguments"])
        return 0
    limits = {name: task[name] for name in ("seconds", "share", "fills_the_device")}
    return _carry_out(module.run, StepReport(Path(task["folder"]), simulated=is_simulated(), **limits))


def _carry_out(step: Callable[[StepReport], None], report: StepReport) -> int:
    try:
        step(report)
    except Exception as error:
        if report.is_about_us(error):
            report.unknown("all of it", one_line(error))
            return 0
        if type(error) is StepFailed:
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

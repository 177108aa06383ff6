"""Programs that a step starts: each with a limit, and with all that it started ended when it is over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from frugal_alloc._command.doctor.step_report import StepReport
from frugal_alloc._common.messages import on_one_line


class Ended(NamedTuple):
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
    """Its output is text, whatever it writes."""
    child = subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=folder,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    status: int | None
    try:
        out, err = child.communicate(timeout=max(seconds, 0.1))
        status = child.returncode
    except subprocess.TimeoutExpired:
        _end_group(child)
        out, err = child.communicate()
        status = None
    finally:
        _end_group(child)
    return Ended(status, out, err)


def say_overrun(report: StepReport, name: str) -> None:
    """What is not done in its time has failed, but in a run that was asked to be short it is skipped."""
    if report.share < 1:
        report.skip(name, "not done in the time of a shortened run")
    else:
        report.check(name, False, "not done in its time")


def _end_group(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)

"""Carries out steps, one after another, each in a process of its own that is ended at its limit."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..._common.messages import on_one_line
from .processes import COMMAND
from .results import NOT_REACHED, Results, StepResult
from .step import FAILED, SKIPPED, UNKNOWN, Step

_PR_SET_CHILD_SUBREAPER = 36
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Too little for a process to start and say anything.
_LEAST_SECONDS = 1.0
#: The driver takes its time to give back what a process has of a large GPU.
_SECONDS_TO_DIE = 90.0
_HELD_BY_THE_DRIVER = "a process of it does not end although it was killed: the driver holds it; look at dmesg"


class Interrupted(BaseException):
    """A signal asks us to end; its argument is the signal's number."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In the block, signals that ask this process to end raise Interrupted."""

    def interrupt(number: int, _: object) -> None:
        # Who is impatient does not keep us from ending what we started.
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A signal that asks us to end does so at the end of the block. What is started in it has to let signals in."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclasses.dataclass
class Runner:
    """
    Attributes:
        out: the prepared folder of the run.
        environment: for the steps' processes.
        results: of the run.
        tell: gets a line as each step begins and ends.
        share: of its full time that each step has.
    """

    out: Path
    environment: Mapping[str, str]
    results: Results
    tell: Callable[[str], None]
    share: float = 1.0

    def __post_init__(self) -> None:
        # What a step leaves behind when it ends becomes our child, wherever it went, so that it can be ended, too.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._not_ours = set(_children())

    def run_part(self, steps: Sequence[Step], seconds: float) -> None:
        """Carries out the steps within the time; those for which none is left are "not reached"."""
        end = time.monotonic() + seconds
        for place, step in enumerate(steps):
            later = self.share * sum(other.seconds for other in steps[place + 1 :])
            # What earlier steps left over goes to the next one; what they took too much goes off those that come last.
            left = end - time.monotonic()
            limit = min(left, max(self.share * step.seconds, left - later))
            if step.needs_virtual_memory and not self.results.where["virtual_memory"]:
                said = "this GPU has no virtual memory management, so frugal_alloc maps nothing on it"
                self._keep(StepResult(step, SKIPPED, said))
            elif limit < _LEAST_SECONDS:
                self._keep(StepResult(step, NOT_REACHED, "no time was left"))
            else:
                self._carry_out(step, limit)

    def _keep(self, result: StepResult) -> None:
        self.results.steps.append(result)
        self.results.write(self.out / "results.json")
        self.tell(f"  {result.step.name}: {result.outcome}{': ' if result.said else ''}{on_one_line(result.said)}")

    def _carry_out(self, step: Step, limit: float) -> None:
        """A step that is interrupted is among the results, too."""
        result = StepResult(step, FAILED, "interrupted", limit_seconds=limit)
        folder = self.out / "steps" / step.name
        folder.mkdir()
        began = time.monotonic()
        try:
            self.tell(f"{step.probe} {step.name}: {step.question} (up to {limit:.0f} s)")
            status, held = self._run_child(step, folder, limit)
            result.read(folder)
            result.conclude(status, self.results.where["simulated"], _last_line(folder / "output.txt"))
            if held:
                self._go_on_beside(held, result)
        finally:
            result.seconds = time.monotonic() - began
            result.read(folder)
            self._keep(result)

    def _go_on_beside(self, held: set[int], result: StepResult) -> None:
        """What the driver does not let go keeps its memory, and is not waited for again."""
        self._not_ours |= held
        self.results.where["is_ours_alone"] = False
        if not result.is_bad:
            result.outcome = UNKNOWN
        result.said = f"{result.said}; {_HELD_BY_THE_DRIVER}" if result.said else _HELD_BY_THE_DRIVER

    def _run_child(self, step: Step, folder: Path, limit: float) -> tuple[int | None, set[int]]:
        """The exit status of the step's process, None if it was ended at its limit; and what of it did not end."""
        task = {
            "module": f"{step.package}.{step.name}",
            "folder": str(folder),
            "seconds": limit,
            "share": limit / step.seconds,
            "parent": os.getpid(),
            "fills_the_device": self.results.where.get("is_ours_alone", False),
        }
        child, status = None, None
        held: set[int] = set()
        try:
            # Not in the moment in which there is a process that we don't know yet.
            with open(folder / "output.txt", "wb") as output, _uninterrupted():
                streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
                # A terminal's Ctrl-C is for us.
                options = {"cwd": folder, "env": dict(self.environment), "start_new_session": True, **streams}
                child = subprocess.Popen([*COMMAND, json.dumps(task)], **options)
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = child.wait(limit)
        finally:
            if child is not None:
                held = _end_all(child, self._not_ours)
        return status, held


def _end_all(child: subprocess.Popen[bytes], not_ours: set[int]) -> set[int]:
    """Ends the process and all that descends from it; what does not end although it was killed."""
    end = time.monotonic() + _SECONDS_TO_DIE
    with _uninterrupted():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_SECONDS_TO_DIE)
        # The children of what has ended are ours now.
        while left := set(_children()) - not_ours:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process, os.WNOHANG)
            if time.monotonic() > end:
                return left
            time.sleep(0.01)
    return set()


def _children() -> list[int]:
    """This process's, those that have ended and were not waited for among them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # "pid (name) state parent ...", and a name may have blanks and brackets.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return on_one_line(lines[-1]) if lines else ""

"""Programs that are careless with streams, under each allocator: what is harmless with PyTorch's own is to be so with
ours.

Every program runs in a process of its own: a fault ends a CUDA context. It runs under the other allocators only where
ours has a problem, to see whose it is. This process imports torch, which takes long, starts no CUDA, and forks.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from . import careless
from .costs import now
from .driver import CannotTell
from .probe import DRIVER, FAILED, PASSED, SKIPPED, UNKNOWN, Report, end_with_parent, one_line

NATIVE, EXPANDABLE, OURS = "native", "expandable_segments", "frugal_alloc"
#: A program that takes less does not hang: that much may go into starting CUDA on a slow machine.
_LEAST_SECONDS = 30.0


class Ending(NamedTuple):
    """PASSED; FAILED; SKIPPED, since the program is not offered here; UNKNOWN, since software does not suit."""

    outcome: str = PASSED
    said: str = "unharmed"


def run(report: Report) -> None:
    try:
        import torch  # noqa: F401 (so that it is there in every child)
    except OSError as error:
        raise CannotTell(f"torch does not load: {one_line(error)}") from None

    unit = (4 << 20) if report.simulated else (64 << 20)
    left, longest = len(careless.PROGRAMS), 0.0
    for name, program in careless.PROGRAMS.items():
        if report.seconds_left() < 1.2 * longest:
            report.say(name, SKIPPED, "no time was left for it")
            continue
        began = now()
        # If ours has a problem, the controls need as much.
        seconds = max(_LEAST_SECONDS, report.seconds_left() / left / 3)
        endings = {OURS: in_process(OURS, program, unit, seconds)}
        longest = max(longest, (now() - began) / 1e9)
        if endings[OURS].outcome == FAILED:
            endings |= {control: in_process(control, program, unit, seconds) for control in (NATIVE, EXPANDABLE)}
        left -= 1
        judge(report, name, endings)


def judge(report: Report, name: str, endings: Mapping[str, Ending]) -> None:
    """`endings`: of ours, and where that is a problem, of the controls."""
    ours, said = endings[OURS], "; ".join(f"{allocator}: {ending.said}" for allocator, ending in endings.items())
    if ours.outcome in (SKIPPED, UNKNOWN):
        report.say(name, ours.outcome, ours.said)
    elif ours.outcome == PASSED:
        report.check(name, True, said, DRIVER)
    elif "out of memory" in ours.said:
        report.say(name, UNKNOWN, f"others use this GPU, and the memory that is left does not do: {said}")
    elif not any(endings[control].outcome == PASSED for control in (NATIVE, EXPANDABLE)):
        report.say(name, SKIPPED, f"it says nothing of ours, since it fails with every allocator: {said}")
    elif endings[NATIVE].outcome != PASSED:
        # The program is at fault with PyTorch's own allocator, too.
        report.check(name, True, f"no worse than with native: {said}", DRIVER)
    else:
        report.check(name, False, said)


def in_process(allocator: str, program: Callable[[Any, int], None], unit: int, seconds: float) -> Ending:
    forks = multiprocessing.get_context("fork")
    answer, tell = forks.Pipe(duplex=False)
    child = forks.Process(target=_run_and_tell, args=(allocator, program, unit, tell, os.getpid()))
    child.start()
    tell.close()
    try:
        child.join(seconds)
        is_late = child.is_alive()
    finally:
        child.kill()
        child.join()
    if is_late:
        return Ending(FAILED, f"no end within {seconds:.0f} s")
    if child.exitcode < 0:
        return Ending(FAILED, f"ended by {signal.Signals(-child.exitcode).name}")
    try:
        return answer.recv()
    except EOFError:
        return Ending(FAILED, f"ended with status {child.exitcode}")


def _run_and_tell(allocator: str, program: Callable[[Any, int], None], unit: int, tell: Any, parent: int) -> None:
    end_with_parent(parent)
    tell.send(_ending(allocator, program, unit))


def _ending(allocator: str, program: Callable[[Any, int], None], unit: int) -> Ending:
    try:
        import torch

        try:
            _choose(allocator)
        except Exception as error:
            return Ending(UNKNOWN, f"{allocator} cannot be chosen: {one_line(error)}")
        program(torch, unit)
        torch.cuda.synchronize()
        return Ending()
    except careless.NotOffered as reason:
        return Ending(SKIPPED, one_line(reason))
    except CannotTell as error:
        return Ending(UNKNOWN, one_line(error))
    except Exception as error:
        return Ending(FAILED, f"{type(error).__name__}: {one_line(error)}")


def _choose(allocator: str) -> None:
    """Before CUDA has started."""
    import torch

    if allocator == OURS:
        import frugal_alloc

        frugal_alloc.enable(track="off")
    elif allocator == EXPANDABLE:
        # Each torch has one of the two; the older one warns in torches that have both.
        choose = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
        (choose or torch.cuda.memory._set_allocator_settings)("expandable_segments:True")

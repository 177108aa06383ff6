"""P5: programs that are careless with streams, under each allocator: what is harmless with PyTorch's own is to be so
with ours.

Every program runs in a process of its own: a fault ends a CUDA context. It runs under the other allocators only where
ours has a problem, to see whose it is. This process imports torch, which takes long, starts no CUDA, and forks.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from . import careless
from .costs import now
from .processes import end_with_parent
from .step import CannotTell, Needs, StepReport, one_line

NATIVE, EXPANDABLE, OURS = "native", "expandable_segments", "frugal_alloc"
#: A program that takes less does not hang: that much may go into starting CUDA on a slow machine.
_LEAST_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class _Ending:
    """How a program ended. At most one of the first three says something."""

    problem: str = ""
    not_offered: str = ""
    #: Why it says nothing of the allocator: software does not suit, or there is too little memory.
    cannot_tell: str = ""
    # What the allocator said meanwhile.
    warned: str = ""

    @property
    def is_unharmed(self) -> bool:
        return not (self.problem or self.not_offered or self.cannot_tell)

    def __str__(self) -> str:
        ended = self.problem or self.not_offered or self.cannot_tell or "unharmed"
        return f"{ended}, but warned of: {self.warned}" if self.warned else ended


def run(report: StepReport) -> None:
    try:
        import torch  # noqa: F401 (so that it is there in every child)
    except OSError as error:
        raise CannotTell(f"torch does not load: {one_line(error)}") from None

    unit = (4 << 20) if report.simulated else (64 << 20)
    left, longest = len(careless.PROGRAMS), 0.0
    for name, program in careless.PROGRAMS.items():
        if report.seconds_left() < 1.2 * longest:
            report.skip(name, "no time was left for it")
            continue
        began = now()
        # If ours has a problem, the controls need as much.
        seconds = max(_LEAST_SECONDS, report.seconds_left() / left / 3)
        endings = {OURS: _in_process(OURS, program, unit, seconds)}
        longest = max(longest, (now() - began) / 1e9)
        if endings[OURS].problem:
            endings |= {control: _in_process(control, program, unit, seconds) for control in (NATIVE, EXPANDABLE)}
        left -= 1
        report.detail(name, **{allocator: str(ending) for allocator, ending in endings.items()})
        _judge(report, name, endings)


def _judge(report: StepReport, name: str, endings: dict[str, _Ending]) -> None:
    """`endings`: of ours, and where that is a problem, of the controls."""
    ours = endings[OURS]
    said = "; ".join(f"{allocator}: {ending}" for allocator, ending in endings.items())
    if ours.not_offered:
        report.skip(name, ours.not_offered)
    elif ours.cannot_tell:
        report.unknown(name, ours.cannot_tell)
    elif not ours.problem:
        report.check(name, True, said, Needs.DRIVER)
    elif "out of memory" in ours.problem and not report.fills_the_device:
        report.unknown(name, f"others use this GPU, and the memory that is left does not do: {said}")
    elif not any(endings[control].is_unharmed for control in (NATIVE, EXPANDABLE)):
        report.skip(name, f"it says nothing of ours, since it fails with every allocator: {said}")
    elif not endings[NATIVE].is_unharmed:
        # The program is at fault with PyTorch's own allocator, too.
        report.check(name, True, f"no worse than with native: {said}", Needs.DRIVER)
    else:
        report.check(name, False, said)


def _in_process(allocator: str, program: Callable[[Any, int], None], unit: int, seconds: float) -> _Ending:
    forks = multiprocessing.get_context("fork")
    said, tell = forks.Pipe(duplex=False)
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
        return _Ending(f"no end within {seconds:.0f} s")
    if child.exitcode < 0:
        return _Ending(f"ended by {signal.Signals(-child.exitcode).name}")
    try:
        return said.recv()
    except EOFError:
        return _Ending(f"ended with status {child.exitcode}")


def _run_and_tell(allocator: str, program: Callable[[Any, int], None], unit: int, tell: Any, parent: int) -> None:
    end_with_parent(parent)
    tell.send(_ending(allocator, program, unit))


def _ending(allocator: str, program: Callable[[Any, int], None], unit: int) -> _Ending:
    try:
        import torch

        began = now()
        try:
            _choose(allocator)
        except Exception as error:
            raise CannotTell(f"{allocator} cannot be chosen: {one_line(error)}") from None
        with warnings.catch_warnings(record=True) as said:
            program(torch, unit)
            torch.cuda.synchronize()
        ours = (one_line(warning.message) for warning in said if "frugal_alloc" in str(warning.message))
        print(f"{program.__name__} under {allocator}: {(now() - began) / 1e9:.1f} s", flush=True)
        return _Ending(warned=next(ours, ""))
    except careless.NotOffered as reason:
        return _Ending(not_offered=one_line(reason))
    except CannotTell as error:
        return _Ending(cannot_tell=one_line(error))
    except Exception as error:
        traceback.print_exc()
        return _Ending(f"{type(error).__name__}: {one_line(error)}")


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

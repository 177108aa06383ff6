"""P5: programs that are careless with streams, under each allocator: what is harmless with PyTorch's own is to be so
with ours.

Every program runs in a process of its own, under each allocator: a fault ends a CUDA context. This process imports
torch, which takes long, starts no CUDA, and forks.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from . import careless
from .child import end_with_parent
from .step_report import Needs, StepReport, one_line
from .timing import now

NATIVE, EXPANDABLE, OURS = "native", "expandable_segments", "frugal_alloc"
#: A program that takes less does not hang: that much may go into starting CUDA on a slow machine.
_LEAST_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class _Ending:
    """How a program ended. At most one of the first two says something."""

    problem: str = ""
    not_offered: str = ""
    # What the allocator said meanwhile.
    warned: str = ""

    def __str__(self) -> str:
        ended = self.problem or self.not_offered or "unharmed"
        return f"{ended}, but warned of: {self.warned}" if self.warned else ended


def run(report: StepReport) -> None:
    import torch  # noqa: F401 (so that it is there in every child)

    unit = (4 << 20) if report.simulated else (64 << 20)
    left, longest = len(careless.PROGRAMS) * 3, 0.0
    for name, program in careless.PROGRAMS.items():
        if report.seconds_left() < 1.2 * longest:
            report.skip(name, "no time was left for it")
            continue
        began = now()
        endings = {}
        for allocator in (OURS, NATIVE, EXPANDABLE):
            seconds = max(_LEAST_SECONDS, report.seconds_left() / left)
            endings[allocator] = _in_process(allocator, program, unit, seconds)
            left -= 1
        longest = max(longest, (now() - began) / 1e9)
        report.detail(name, **{allocator: str(ending) for allocator, ending in endings.items()})
        _judge(report, name, endings)


def _judge(report: StepReport, name: str, endings: dict[str, _Ending]) -> None:
    ours, native = endings[OURS], endings[NATIVE]
    if ours.not_offered:
        report.skip(name, ours.not_offered)
        return
    said = "; ".join(f"{allocator}: {ending}" for allocator, ending in endings.items())
    if not ours.problem:
        report.check(name, True, said, Needs.DRIVER)
    elif native.problem:
        # The program is at fault with any allocator.
        report.check(name, True, f"no worse than with native: {said}", Needs.DRIVER)
    else:
        report.check(name, False, said)


def _in_process(allocator: str, program: Callable[[Any, int], None], unit: int, seconds: float) -> _Ending:
    reading, writing = os.pipe()
    sys.stdout.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        end_with_parent(parent)
        os.close(reading)
        _run_and_exit(allocator, program, unit, writing)
    os.close(writing)
    with os.fdopen(reading) as said:
        if not _wait(child, seconds):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return _Ending(f"no end within {seconds:.0f} s")
        _, status = os.waitpid(child, 0)
        text = said.read()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return _Ending(f"ended by {signal.Signals(-code).name}")
    return _Ending(**json.loads(text)) if text else _Ending(f"ended with status {code}")


def _wait(child: int, seconds: float) -> bool:
    """Whether it ended in time."""
    process = os.pidfd_open(child)
    try:
        return bool(select.select([process], [], [], seconds)[0])
    finally:
        os.close(process)


def _run_and_exit(allocator: str, program: Callable[[Any, int], None], unit: int, writing: int) -> None:
    """Never returns: what the parent has open, and what it would do at its end, is the parent's."""
    ending = _Ending()
    try:
        import torch

        began = now()
        _choose(allocator)
        with warnings.catch_warnings(record=True) as said:
            program(torch, unit)
            torch.cuda.synchronize()
        ours = [str(warning.message).splitlines()[0] for warning in said if "frugal_alloc" in str(warning.message)]
        ending = _Ending(warned=ours[0] if ours else "")
        print(f"{program.__name__} under {allocator}: {(now() - began) / 1e9:.1f} s", flush=True)
    except careless.NotOffered as reason:
        ending = _Ending(not_offered=one_line(reason))
    except Exception as error:
        traceback.print_exc()
        ending = _Ending(f"{type(error).__name__}: {one_line(error)}")
    os.write(writing, json.dumps(dataclasses.asdict(ending)).encode())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


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

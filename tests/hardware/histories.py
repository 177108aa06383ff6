"""P7: four recorded programs through each allocator, with the times of this GPU's driver."""

from __future__ import annotations

import dataclasses

from frugal_alloc._command.doctor.machine import describe
from frugal_alloc._command.doctor.step import CannotTell, Needs, StepReport
from frugal_alloc._common import installation
from frugal_alloc._planning.replay import history_files, replays

from . import kit

_NAMES = ("gpt60", "frcnn60", "bert60", "resnet60")
# Ours last: what the others have room for, it must have room for.
_ALLOCATORS = ("native", "expandable", "frugal")
#: One for what driver calls take, another on a warm cache.
_PASSES = 2
#: Of what is free, where others use the GPU.
_SHARED = 0.25


def run(report: StepReport) -> None:
    try:
        replayer = replays.Replayer(replays.REAL)
        files = [kit.ROOT / "bench" / "histories" / f"{name}.json.xz" for name in _NAMES]
        histories = [history_files.read(file) for file in files[: report.rounds(len(files))]]
    except (installation.MissingPart, history_files.HistoryError) as error:
        raise CannotTell(str(error)) from None
    capacity = replays.DEFAULT_CAPACITY if report.fills_the_device else int(describe()["free_bytes"] * _SHARED)
    for history in histories:
        fits = False
        for allocator in _ALLOCATORS:
            name = f"{history.name.split('.')[0]}: {allocator}"
            if report.seconds_left() <= 0:
                report.skip(name, "no time was left")
                continue
            try:
                found = replayer.measure(history, allocator, capacity, find_minimum=False, passes=_PASSES)
            except replays.ReplayError as error:
                if allocator == _ALLOCATORS[-1] and fits:
                    report.check(name, False, str(error))
                else:
                    report.unknown(name, f"it says nothing of ours: {error}")
                continue
            _tell(report, name, found, fits)
            fits |= found.completed


def _tell(report: StepReport, name: str, found: replays.Measurement, fits: bool) -> None:
    """`fits`: another allocator has played it in the memory that is free."""
    report.detail(name, **dataclasses.asdict(found))
    if not found.completed:
        said = f"out of memory at event {found.failed_at}: {found.error}"
        if fits and found.allocator == "frugal":
            report.check(name, False, said)
        else:
            report.skip(name, said)
        return
    held = f"{found.peak_reserved_bytes / (1 << 30):.2f} GiB held for {found.peak_live_bytes / (1 << 30):.2f} live"
    report.check(name, found.peak_reserved_bytes >= found.peak_live_bytes, held, Needs.CALLS)
    report.figure(f"{name}, driver", found.driver_ns / 1e6, "ms", held)
    report.figure(f"{name}, all calls", (found.host_ns or 0) / 1e6, "ms")

"""P7: what an allocation and its free take the host, by size, through each allocator.

//bench:micro_bench asks the same of one build of torch, which cannot travel; these are histories that the replay plays.
"""

from __future__ import annotations

from frugal_alloc._command.doctor.step import CannotTell, StepReport
from frugal_alloc._common import installation
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._planning.replay import replays

from bench.generators.recorder import Recorder

_SIZES = (512, 4 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20)
_PAIRS = 200_000
#: So many live beside the pairs.
_LIVE = 8
_ALLOCATORS = ("native", "expandable", "frugal")


def run(report: StepReport) -> None:
    try:
        replayer = replays.Replayer(replays.REAL)
    except installation.MissingPart as error:
        raise CannotTell(str(error)) from None
    for size in _SIZES[:1] if report.simulated else _SIZES:
        recorder = Recorder()
        for _ in range(_LIVE):
            recorder.allocate(size)
        for _ in range(report.rounds(_PAIRS, 1000)):
            recorder.temporary(size)
        history = recorder.history(f"pairs of {size}")
        for allocator in _ALLOCATORS:
            name = f"{format_bytes(size)}: {allocator}"
            if report.seconds_left() < 0:
                report.skip(name, "no time was left")
                continue
            try:
                found = replayer.measure(history, allocator, replays.DEFAULT_CAPACITY, find_minimum=False)
            except replays.ReplayError as error:
                report.unknown(name, str(error))
                continue
            report.check(name, found.completed, f"{found.events} events")
            report.figure(f"{name}, a pair", found.ns_per_pair or 0.0, "ns")

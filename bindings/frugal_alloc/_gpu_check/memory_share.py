"""How much of the device a step may take: others may use it, too."""

from __future__ import annotations

from .driver import Driver
from .step_report import StepReport

#: Where others hold memory, of what is free.
_SHARED = 0.25
_ALONE = 0.8


def most_bytes(gpu: Driver, report: StepReport, most: int) -> int:
    """For measurements that need no full device: `most`, or as much as is decent; on the simulated GPU, whose memory is
    this machine's, a little."""
    free, _ = gpu.memory_info()
    share = int(free * (_ALONE if report.fills_the_device else _SHARED))
    return min(most, share, (64 << 20) if report.simulated else share)

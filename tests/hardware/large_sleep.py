"""P9: 60 GiB of tensors sleep in pinned memory and wake, or as much as this machine has room for."""

from __future__ import annotations

from frugal_alloc._command.doctor.step import StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB

from . import sleeping

#: As much again is dropped.
_MOST = 2 * 60 * GIB
#: Of the host's memory that is available: half of what sleeps is copied.
_HOST_SHARE = 1.2


def run(report: StepReport) -> None:
    sleeping.carry_out(report, (sleeping.PINNED,), _MOST, _HOST_SHARE, turns=3)

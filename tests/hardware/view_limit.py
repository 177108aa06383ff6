"""P1, only when asked for by name: how many views a machine's driver allows, and how it refuses one more.

While it lasts it starves every process of the machine that maps memory.
"""

from __future__ import annotations

import contextlib
import json
import os

from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.driver import DriverError
from frugal_alloc._command.doctor.processes import answer_of
from frugal_alloc._command.doctor.step import Needs, StepReport
from frugal_alloc._command.doctor.virtual_memory import PAGE, opened_gpu

#: Twice NVIDIA's table: whoever has more has another limit.
_MOST = 2 * 0x80000
_HANDLES = 64
_SIMULATED_LIMIT = "4096"
LIMIT, AFTER = "the limit of views", "a view less makes room for one"


def run(report: StepReport) -> None:
    with report.part(LIMIT):
        # In a process of its own, whose end gives everything back.
        environment = {"FRUGAL_SIM_MAPPINGS": _SIMULATED_LIMIT} if report.simulated else {}
        found = answer_of(_fill, report.seconds_left() / 2, **environment)
        ended = found["refused"] or "no end was reached"
        report.check(LIMIT, True, f"{found['views']} views, then {ended}", Needs.DRIVER)
        report.figure("views of handles of 2 MiB at once", found["views"], "", ended)
        if found["refused"]:
            report.check(AFTER, found["serves_again"], "a view was taken away and asked for again", Needs.DRIVER)


def _fill(seconds: float) -> None:
    end = now() + int(seconds * 1e9)
    with opened_gpu() as gpu, gpu.handles(_HANDLES, PAGE) as made:
        views, last, refused, serves_again = 0, 0, "", False
        try:
            while views < _MOST and now() < end:
                start = gpu.made("cuMemAddressReserve", _HANDLES * PAGE, PAGE, 0, 0)
                for place, handle in enumerate(made):
                    gpu.map_handles(start + place * PAGE, [handle], PAGE)
                    views, last = views + 1, start + place * PAGE
        except DriverError as error:
            refused = f"{error.call}: {error.name}"
        if refused and last:
            gpu.call("cuMemUnmap", last, PAGE)
            with contextlib.suppress(DriverError):
                gpu.map_handles(last, made[:1], PAGE)
                serves_again = True
        print(json.dumps({"views": views, "refused": refused, "serves_again": serves_again}), flush=True)
        os._exit(0)

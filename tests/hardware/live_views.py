"""P1: whether calls become slower as views of handles pile up, what views cost the host, and how long a process with a
device full of them takes to end."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from frugal_alloc._command.doctor.costs import CallTimes, now
from frugal_alloc._command.doctor.driver import DriverError
from frugal_alloc._command.doctor.processes import started
from frugal_alloc._command.doctor.step import StepFailed, StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB, MIB, PAGE, Gpu, opened_gpu

#: NVIDIA's open kernel modules count every view of every process of a node in one table of so many.
_LIMIT_OF_A_NODE = 0x80000
#: Of it we take so much where we are alone on the GPU, and where others are there.
_ALONE, _SHARED = 0.29, 0.05
_STEPS = (0, 1_000, 10_000, 50_000, 100_000, 150_000)
_AT_ONCE = 1024
_SIMULATED_MOST = 2048
_SECONDS_TO_FILL = 15.0
_ENDS = "a process full of views ends"


def run(report: StepReport) -> None:
    with opened_gpu() as gpu, report.part("views"):
        _pile_up(gpu, report)
    with report.part(_ENDS):
        _fill_and_exit(report)


# --- Views, without more memory: a handle can be seen at any number of pages.


class _Views:
    """Views of the same handles, more and more of them, until the driver refuses."""

    def __init__(self, gpu: Gpu, made: list[int]) -> None:
        self._gpu, self._made = gpu, made
        self._ranges: list[contextlib.ExitStack] = []
        #: By which error, beside how many; whatever its code, the table of the node may be full.
        self.refused = ""

    @property
    def count(self) -> int:
        return len(self._ranges) * len(self._made)

    def add(self) -> None:
        """One of each handle. Raises DriverError where not even the first are granted."""
        with contextlib.ExitStack() as added:
            try:
                added.enter_context(self._gpu.mapped(self._made, PAGE))
            except DriverError as error:
                if not self._ranges:
                    raise
                self.refused = f"beside {self.count}: {error}"
                self._ranges.pop().close()  # the calls that are measured need a place
            else:
                self._ranges.append(added.pop_all())

    def close(self) -> None:
        while self._ranges:
            self._ranges.pop().close()


def _pile_up(gpu: Gpu, report: StepReport) -> None:
    share = _ALONE if report.fills_the_device else _SHARED
    most = _SIMULATED_MOST if report.simulated else int(_LIMIT_OF_A_NODE * share)
    count = max(1, min(_AT_ONCE, gpu.most_bytes(report, 2 * GIB) // PAGE))
    first: float | None = None
    with gpu.handles(count, PAGE) as made, contextlib.closing(_Views(gpu, made)) as views:
        _sample(gpu, report)  # warms up
        for goal in (*(step for step in _STEPS if step < most), most):
            while views.count < goal and not views.refused and report.seconds_left() > 0.5 * report.seconds:
                views.add()
            remap = _sample(gpu, report, views.count)
            first = first or remap
        host, most_live = _host(report, views.count), views.count
        said = f"{most_live} were live at once, and calls went on; {host}"
        report.check("views", most_live >= min(most, _AT_ONCE), said)
        if views.refused:
            report.figure("views that the driver grants", most_live, "", views.refused)
        report.figure("map, open and unmap beside no views", first or 0.0, "µs")
        report.figure("map, open and unmap beside the most views", remap, "µs", f"{most_live} views")
        began = now()
    report.figure("to take a view away", (now() - began) / 1000 / max(1, most_live), "µs", "the last of all")


def _sample(gpu: Gpu, report: StepReport, views: int | None = None) -> float:
    """The median of mapping, opening and unmapping one handle, together, beside so many views."""
    times = CallTimes(gpu)
    with times.handles(1, PAGE) as made:
        for _ in range(report.rounds(200, 2)):
            times.map_and_unmap(made, PAGE)
    total = 0.0
    for call, _, _, found in times.all():
        if views is not None:
            report.detail("beside views", views=views, call=call, microseconds=found.as_json())
        total += found.p50 if call in ("map", "set_access", "unmap") else 0.0
    return total


def _host(report: StepReport, views: int) -> str:
    """What the process is to Linux."""
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    report.figure("mappings of the process", mappings, "", f"beside {views} views; vm.max_map_count is the limit")
    report.figure("resident memory of the process", resident / MIB, "MiB", f"beside {views} views")
    return f"{mappings} mappings, {resident >> 20} MiB resident"


# --- A process that ends with all of it.


def _fill_and_exit(report: StepReport) -> None:
    """What is measured is from the process's last word to its end, in which the driver takes everything back."""
    with started(_fill, report.fills_the_device, report.simulated) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        said = now()
        status = process.wait()
    seconds = (now() - said) / 1e9
    if status != 0 or not line:
        raise StepFailed(f"it ended with status {status}")
    count, filling, refused = json.loads(line)
    report.check(_ENDS, True, f"it held {count} handles of 2 MiB{'; then ' if refused else ''}{refused}")
    report.figure("to fill the device with handles of 2 MiB", filling, "s", f"{count} handles")
    report.figure("for a process with them to end", seconds, "s", f"{count} handles")


def _fill(whole_device: bool, simulated: bool) -> None:
    with opened_gpu() as gpu:
        free, _ = gpu.memory_info()
        # Not the last pages: this is about numbers, full_device is about those.
        goal = int(free * (0.97 if whole_device else 0.25)) // PAGE
        goal = min(goal, _SIMULATED_MOST) if simulated else goal
        asked, count, began, refused = gpu.properties(), 0, now(), ""
        while count < goal and now() - began < _SECONDS_TO_FILL * 1e9:
            several = min(_AT_ONCE, goal - count)
            try:
                made = [gpu.create(PAGE, asked) for _ in range(several)]
                gpu.map_handles(gpu.made("cuMemAddressReserve", several * PAGE, PAGE, 0, 0), made, PAGE)
            except DriverError as error:
                if not count:
                    raise
                refused = str(error)
                break
            count += several
        print(json.dumps((count, (now() - began) / 1e9, refused)), flush=True)
        # As a program that is killed would: what is held goes back by the end of the process.
        os._exit(0)

"""P4: what the driver still needs when every page of the device is taken.

A process fills the device, with handles of 2 MiB or with cudaMalloc, and then does for the first time what makes a
driver allocate: load a module, run a kernel with local memory, use a new stream, open a fresh address. What fails is
tried again as memory is given back, a page at a time: how much that took is what has to be left to the driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref, c_uint, c_uint64
from typing import Any

from frugal_alloc._command.doctor import kernels
from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.driver import DriverError
from frugal_alloc._command.doctor.processes import started
from frugal_alloc._command.doctor.step import CannotTell, Needs, StepFailed, StepReport, one_line
from frugal_alloc._command.doctor.virtual_memory import GIB, MIB, PAGE, Gpu, opened_gpu

from . import kit

_SIMULATED_MEMORY = "768MiB"
#: The most that is given back for one trial; who needs more than that is said to need it.
_MOST_GIVEN_BACK = 2 * GIB
_FIRST_SIZE = GIB
WAYS = {"handles": "handles of 2 MiB", "segments": "cudaMalloc"}


def run(report: StepReport) -> None:
    if not report.fills_the_device:
        report.skip("a full device", "others hold memory of this GPU; --alone says that they may be starved")
        return
    for way, title in WAYS.items():
        with report.part(f"filled with {title}"):
            _try_in_process(report, way, title, report.seconds_left() / (2 if way == "handles" else 1))


def _try_in_process(report: StepReport, way: str, title: str, seconds: float) -> None:
    """In one of its own: a context that has run out may never be whole again."""
    # A small one, since its pages are filled one by one.
    small = {"FRUGAL_SIM_MEMORY": _SIMULATED_MEMORY, "FRUGAL_SIM_CONTEXT": "512MiB"} if report.simulated else {}
    with started(_fill_and_try, way, **small) as process:
        try:
            lines, _ = process.communicate(timeout=max(1.0, seconds))
            ended = f"ended with status {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            lines, _ = process.communicate()
            ended = f"no end within {seconds:.0f} s"
    for line in lines.splitlines():
        _say(report, f"filled with {title}", json.loads(line))
    if ended:
        raise StepFailed(ended)


def _say(report: StepReport, filled: str, found: dict[str, Any]) -> None:
    if "unknown" in found:
        report.unknown(filled, found["unknown"])
    elif "filled" in found:
        said = f"{found['filled'] >> 20} MiB in {found['seconds']:.1f} s, {found['free'] >> 20} MiB free"
        report.check(filled, True, f"{said}; then {found['refused']}")
    else:
        name, gave, first = f"{found['trial']}, {filled}", found["given_back"], found["first"]
        if not found["served"]:
            report.check(name, False, f"{first}; and after {gave >> 20} MiB were given back: {found['last']}")
            return
        said = f"worked after {gave >> 20} MiB were given back" if gave else "worked with nothing given back"
        # A driver that needs something is no failure; how much it needs is what we ask.
        report.check(name, True, said, Needs.DRIVER)
        report.figure(f"needed: {name}", gave / MIB, "MiB", first)


# --- The process that fills.


class _Full:
    """A device without a free page, that gives back one after another."""

    def __init__(self, gpu: Gpu, way: str) -> None:
        self._gpu, self._is_mapped = gpu, way == "handles"
        self._properties, self._access = gpu.properties(), gpu.access()
        # Where each begins, and its bytes.
        self._pieces: list[tuple[int, int]] = []
        self._range, self.bytes = 0, 0
        #: How the driver said that there is no more.
        self.refused = ""

    def fill(self) -> None:
        if self._is_mapped and not self._range:
            _, total = self._gpu.memory_info()
            self._range = self._gpu.made("cuMemAddressReserve", (total + GIB) // PAGE * PAGE, PAGE, 0, 0)
        size = PAGE if self._is_mapped else _FIRST_SIZE
        while size >= PAGE:
            if not self._takes(size):
                size //= 2

    def give_back(self) -> bool:
        """A page, or the last segment; False if nothing is left."""
        if not self._pieces:
            return False
        start, size = self._pieces.pop()
        if self._is_mapped:
            self._gpu.call("cuMemUnmap", start, size)
        else:
            self._gpu.call("cuMemFree_v2", start)
        self.bytes -= size
        return True

    def _takes(self, size: int) -> bool:
        try:
            start = self._map_page() if self._is_mapped else self._gpu.made("cuMemAlloc_v2", size)
        except DriverError as error:
            # Its table of handles may be full before the memory is, for which it has another code.
            if not self.bytes and not error.is_out_of_memory:
                raise
            self.refused = str(error)
            return False
        self._pieces.append((start, size))
        self.bytes += size
        return True

    def _map_page(self) -> int:
        page = self._range + len(self._pieces) * PAGE
        # A mapping keeps the memory.
        with self._gpu.lent(("cuMemCreate", PAGE, byref(self._properties), 0), "cuMemRelease") as handle:
            self._gpu.call("cuMemMap", page, PAGE, 0, handle, 0)
            try:
                self._gpu.call("cuMemSetAccess", page, PAGE, byref(self._access), 1)
            except DriverError:
                self._gpu.undo("cuMemUnmap", page, PAGE)
                raise
        return page


def _trials(gpu: Gpu, out: int, kept: int) -> dict[str, Callable[[], None]]:
    """What is done for the first time. `kept`: a handle from before; its physical memory is there."""
    codes = {
        "timing": kernels.compiled(gpu, "timing"),
        "local_memory": kernels.compiled(gpu, "local_memory", kit.KERNELS),
    }
    modules: dict[str, kernels.Module] = {}

    def module(name: str) -> kernels.Module:
        if name not in modules:
            modules[name] = kernels.Module(gpu, kernels.load(gpu, codes[name]))
        return modules[name]

    def first_module() -> None:
        module("timing").kernel("nothing", 1, 1).launch(0)
        gpu.call("cuCtxSynchronize")

    def local_memory() -> None:
        module("local_memory").kernel("local_memory", 1, 256, c_uint64(out), c_uint(1000)).launch(0)
        gpu.call("cuCtxSynchronize")

    def new_stream() -> None:
        with gpu.stream() as stream:
            gpu.call("cuMemsetD32Async", out, 0, 256, stream)
            gpu.call("cuStreamSynchronize", stream)

    def fresh_address() -> None:
        start = gpu.made("cuMemAddressReserve", GIB, GIB, 0, 0)
        gpu.call("cuMemMap", start, PAGE, 0, kept, 0)
        try:
            gpu.call("cuMemSetAccess", start, PAGE, byref(gpu.access()), 1)
        finally:
            gpu.undo("cuMemUnmap", start, PAGE)
            gpu.undo("cuMemAddressFree", start, GIB)

    return {
        "first load of a module": first_module,
        "first kernel with local memory": local_memory,
        "a new stream": new_stream,
        "a handle at a fresh address": fresh_address,
    }


def _tell(**found: object) -> None:
    print(json.dumps(found), flush=True)


def _fill_and_try(way: str) -> None:
    with opened_gpu() as gpu:
        try:
            _fill(gpu, way)
        except CannotTell as error:
            _tell(unknown=one_line(error))
    sys.stdout.flush()
    os._exit(0)


def _fill(gpu: Gpu, way: str) -> None:
    out = gpu.made("cuMemAlloc_v2", 4096)
    kept = gpu.create(PAGE, gpu.properties())
    trials = _trials(gpu, out, kept)
    full, began = _Full(gpu, way), now()
    full.fill()
    seconds = (now() - began) / 1e9
    _tell(filled=full.bytes, free=gpu.memory_info()[0], seconds=seconds, refused=full.refused)
    for name, trial in trials.items():
        _try(full, name, trial)


def _try(full: _Full, name: str, trial: Callable[[], None]) -> None:
    """Until it works, for the memory of at most so many pages; takes that memory again."""
    before, errors = full.bytes, []
    served = False
    while not served:
        try:
            trial()
            served = True
        except DriverError as error:
            errors.append(one_line(error))
            if before - full.bytes >= _MOST_GIVEN_BACK or not full.give_back():
                break
    first, last = (errors[0], errors[-1]) if errors else ("", "")
    _tell(trial=name, served=served, given_back=before - full.bytes, first=first, last=last)
    full.fill()

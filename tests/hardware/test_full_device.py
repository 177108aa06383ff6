"""What the driver still needs when every page of the device is taken, whether memory that was just released comes at
once, and where addresses end.

A process fills the device, with handles of 2 MiB or with cudaMalloc, and then does for the first time what makes a
driver allocate. What fails is tried again as memory is given back, a page at a time: how much that took is what has to
be left to the driver.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._command.doctor import driver
from frugal_alloc._command.doctor.costs import CallTimes, now
from frugal_alloc._command.doctor.driver import ADDRESS, GIB, MIB, PAGE, WORD, DriverError, Gpu, compiled, opened_gpu

from hardware.on_gpu import KERNELS, SIMULATED, Figure, answers_of, needs_a_full_device, rounds, tell

# A small one, since its pages are filled one by one.
_SIMULATED = {"FRUGAL_SIM_MEMORY": "768MiB", "FRUGAL_SIM_CONTEXT": "512MiB"} if SIMULATED else {}
#: The most that is given back for one trial; who needs more than that is said to need it.
_MOST_GIVEN_BACK = 2 * GIB


@needs_a_full_device
@pytest.mark.parametrize("way", ["handles of 2 MiB", "cudaMalloc"])
def test_full_device_serves_what_comes_for_the_first_time(way: str, gpu: Gpu, figure: Figure) -> None:
    filled, *trials = answers_of(fill_and_try, way, **_SIMULATED)
    figure(f"filled with {way}", filled["bytes"] / GIB, "GiB", filled["said"])
    assert len(trials) == 4
    for found in trials:
        assert found["served"], found
        # A driver that needs something is no failure; how much it needs is what we ask.
        figure(f"needed: {found['trial']}, filled with {way}", found["given_back"] / MIB, "MiB", found["first"])


class Full:
    """A device without a free page, that gives back one after another."""

    def __init__(self, gpu: Gpu, is_mapped: bool) -> None:
        self._gpu, self._is_mapped = gpu, is_mapped
        self._properties = gpu.properties()
        self._pieces: list[tuple[int, int]] = []  # where each begins, and its bytes
        self._range, self.bytes = 0, 0
        #: How the driver said that there is no more.
        self.refused = ""

    def fill(self) -> None:
        if self._is_mapped and not self._range:
            self._range = self._gpu.reserve((self._gpu.call("cuMemGetInfo")[1] + GIB) // PAGE * PAGE)
        size = PAGE if self._is_mapped else GIB
        while size >= PAGE:
            if not self._takes(size):
                size //= 2

    def give_back(self) -> bool:
        """A page, or the last segment; False if nothing is left."""
        if not self._pieces:
            return False
        start, size = self._pieces.pop()
        self._gpu.call("cuMemUnmap", start, size) if self._is_mapped else self._gpu.call("cuMemFree", start)
        self.bytes -= size
        return True

    def _takes(self, size: int) -> bool:
        try:
            start = self._map_page() if self._is_mapped else int(self._gpu.call("cuMemAlloc", size))
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
        with self._gpu.lent(self._gpu.create(PAGE, self._properties), "cuMemRelease") as handle:
            self._gpu.map_handles(page, [handle], PAGE)
        return page


def trials_of(gpu: Gpu, out: int, kept: int) -> dict[str, Callable[[], None]]:
    """What is done for the first time. `kept`: a handle from before; its physical memory is there."""
    sources = driver.KERNELS / "timing.cu", KERNELS / "local_memory.cu"
    codes = [compiled(source, gpu.compute_capability) for source in sources]
    modules: dict[int, Any] = {}

    def launch(place: int, name: str, block: int, types: tuple[type, ...], *values: int) -> None:
        if place not in modules:
            modules[place] = gpu.load(codes[place])
        gpu.launch(gpu.kernel(modules[place], name, 1, block, *types), 0, *values)
        gpu.call("cuStreamSynchronize", 0)

    def new_stream() -> None:
        with gpu.stream() as stream:
            gpu.call("cuMemsetD32Async", out, 0, 256, stream)
            gpu.call("cuStreamSynchronize", stream)

    def fresh_address() -> None:
        with gpu.lent(gpu.reserve(GIB, GIB), "cuMemAddressFree", GIB) as start:
            gpu.map_handles(start, [kept], PAGE)
            gpu.call("cuMemUnmap", start, PAGE)

    return {
        "first load of a module": lambda: launch(0, "nothing", 1, ()),
        "first kernel with local memory": lambda: launch(1, "local_memory", 256, (ADDRESS, WORD), out, 1000),
        "a new stream": new_stream,
        "a handle at a fresh address": fresh_address,
    }


def fill_and_try(way: str) -> None:
    """In a process of its own: a context that has run out may never be whole again."""
    with opened_gpu() as gpu:
        out, kept = int(gpu.call("cuMemAlloc", 4096)), gpu.create(PAGE, gpu.properties())
        trials, full, began = trials_of(gpu, out, kept), Full(gpu, way != "cudaMalloc"), now()
        full.fill()
        said = f"in {(now() - began) / 1e9:.1f} s, {gpu.free_bytes() >> 20} MiB free; then {full.refused}"
        tell(bytes=full.bytes, said=said)
        for name, trial in trials.items():
            before, first, served = full.bytes, "", False
            while not served:
                try:
                    trial()
                    served = True
                except DriverError as error:
                    first = first or str(error)
                    if before - full.bytes >= _MOST_GIVEN_BACK or not full.give_back():
                        break
            tell(trial=name, served=served, given_back=before - full.bytes, first=first)
            full.fill()
        os._exit(0)  # all goes back by the end of the process


# --- Memory that was just released: the driver clears it before somebody else may have it.

_HANDLE, _TAKEN_AGAIN = 64 * MIB, 16 * GIB
_MOST_SECONDS_TO_TAKE, _SECONDS_TO_FILL = 5.0, 15.0


@needs_a_full_device
def test_memory_that_was_just_released_can_be_had_again(gpu: Gpu, figure: Figure) -> None:
    if gpu.attribute("INTEGRATED"):
        pytest.skip("this GPU's memory is the host's, which has other uses for it")
    asked, free = gpu.properties(), gpu.free_bytes()
    count, made = max(1, min(_TAKEN_AGAIN, free // 4) // _HANDLE), []

    def take(title: str) -> None:
        """So many handles; one that is refused is asked for again for a while."""
        began, refused, goal = now(), 0, len(made) + count
        while len(made) < goal:
            try:
                made.append(gpu.create(_HANDLE, asked))
            except DriverError as error:
                refused += 1
                if not error.is_out_of_memory or now() - began > _MOST_SECONDS_TO_TAKE * 1e9:
                    raise
        said = f"{refused} calls were refused" if refused else ""
        figure(f"to take {count * _HANDLE / GIB:.3g} GiB {title}", (now() - began) / 1e6, "ms", said)

    try:
        take("before any was released")
        end = now() + _SECONDS_TO_FILL * 1e9
        while (len(made) + 1) * _HANDLE <= free * 0.95 and now() < end:
            made.append(gpu.create(_HANDLE, asked))
        for title, rest in (("released just now", 0.0), ("released 1 s ago", 1.0)):
            for _ in range(count):
                gpu.call("cuMemRelease", made.pop())
            threading.Event().wait(rest)
            take(title)
    finally:
        for handle in made:
            gpu.undo("cuMemRelease", handle)


# --- Addresses.

#: As frugal_alloc reserves on a GPU of 140 GiB.
_RESERVATION = 280 * GIB
_SECONDS_TO_RESERVE = 5.0


def test_process_has_several_reservations(gpu: Gpu, figure: Figure) -> None:
    # In one of its own: the driver's addresses are the host's, too, which has none left then.
    (found,) = answers_of(reserve, rounds(4096, 8), **({"FRUGAL_SIM_ADDRESSES": "1000GiB"} if SIMULATED else {}))
    assert found["count"] == 3 if SIMULATED else found["count"] > 0, found
    figure("reservations of 280 GiB that a process had at once", found["count"], "", found["refused"])
    figure("to reserve 280 GiB", found["microseconds"], "µs", "median")


def reserve(most: int) -> None:
    with opened_gpu() as gpu:
        times, count, refused = CallTimes(gpu), 0, "no end was reached"
        end = now() + int(_SECONDS_TO_RESERVE * 1e9)
        while count < most and now() < end:
            try:
                times.call("reserve", "cuMemAddressReserve", _RESERVATION, PAGE, 0, 0)
            except DriverError as error:
                refused = error.name
                break
            count += 1
        tell(count=count, refused=refused, microseconds=times.microseconds("reserve"))
        os._exit(0)

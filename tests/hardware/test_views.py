"""Whether calls become slower as views of handles pile up, what views cost the host, how many a driver allows, and how
long a process with a device full of them takes to end."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from frugal_alloc._command.doctor.costs import CallTimes, now
from frugal_alloc._command.doctor.driver import GIB, MIB, PAGE, DriverError, Gpu, opened_gpu

from hardware.on_gpu import ALONE, SIMULATED, Figure, answers_of, check_ending, most_bytes, rounds, shown, started, tell

#: NVIDIA's open kernel modules count every view of every process of a node in one table of so many.
_LIMIT_OF_A_NODE = 0x80000
#: Of it we take so much where we are alone on the GPU, and where others are there.
_SHARE = 0.29 if ALONE else 0.05
_MOST = 2048 if SIMULATED else int(_LIMIT_OF_A_NODE * _SHARE)
_AT_ONCE = 1024
_SECONDS_TO_FILL, _SECONDS_TO_PILE_UP, _SECONDS_TO_STARVE = 15.0, 30.0, 60.0


def sample(gpu: Gpu) -> float:
    """The median of mapping, opening and unmapping one handle, together."""
    times = CallTimes(gpu)
    with times.handles(1, PAGE) as made:
        for _ in range(rounds(200)):
            times.map_and_unmap(made, PAGE)
    return sum(times.microseconds(call, PAGE) for call in ("map", "set_access", "unmap"))


def test_calls_go_on_beside_many_views(gpu: Gpu, figure: Figure) -> None:
    count = max(1, min(_AT_ONCE, most_bytes(gpu, 2 * GIB) // PAGE))
    sample(gpu)  # warms up
    end = now() + _SECONDS_TO_PILE_UP * 1e9
    with gpu.handles(count, PAGE) as made, contextlib.ExitStack() as stack:
        views, refused, alone, last = 0, "", sample(gpu), contextlib.ExitStack()
        while views < _MOST and now() < end:
            added = stack.enter_context(contextlib.ExitStack())
            try:
                added.enter_context(gpu.mapped(made, PAGE))
            except DriverError as error:  # whatever its code, the table of the node may be full
                if views <= count:
                    raise
                refused = f"then {error}"
                last.close()  # the calls that are measured need a place
                views -= count
                break
            last, views = added, views + count
        beside = sample(gpu)
        figure("map, open and unmap beside no views", alone, "µs")
        figure("map, open and unmap beside the most views", beside, "µs", f"{views} views {refused}".rstrip())
        mappings = len(Path("/proc/self/maps").read_text().splitlines())
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        figure("lines of /proc/self/maps", mappings, "", "vm.max_map_count is the limit")
        figure("resident memory of the process", resident / MIB, "MiB")
        assert views >= min(_MOST, _AT_ONCE) or now() > end
        began = now()
    figure("to take a view away", (now() - began) / 1000 / views, "µs", "the last of all")


def test_process_full_of_views_ends(gpu: Gpu, figure: Figure) -> None:
    """What is measured is from the process's last word to its end, in which the driver takes everything back."""
    with started(fill) as process:
        line, said = process.stdout.readline(), now()
        check_ending(process, line)
    seconds = (now() - said) / 1e9
    count, filling, refused = line.strip().split(" ", 2)
    figure("to fill the device with handles of 2 MiB", float(filling), "s", f"{count} handles; {refused}")
    figure("for a process with them to end", seconds, "s")


def fill() -> None:
    with opened_gpu() as gpu:
        # Not the last pages: this is about numbers, test_full_device is about those.
        goal = int(gpu.free_bytes() * (0.97 if ALONE else 0.25)) // PAGE
        goal = min(goal, _MOST) if SIMULATED else goal
        asked, count, began, refused = gpu.properties(), 0, now(), "none was refused"
        while count < goal and now() - began < _SECONDS_TO_FILL * 1e9:
            several = min(_AT_ONCE, goal - count)
            try:
                made = [gpu.create(PAGE, asked) for _ in range(several)]
                gpu.map_handles(gpu.reserve(several * PAGE), made, PAGE)
            except DriverError as error:
                if not count:
                    raise
                refused = str(error)
                break
            count += several
        print(count, (now() - began) / 1e9, refused, flush=True)
        os._exit(0)


@pytest.mark.starves
def test_view_less_makes_room_for_one(gpu: Gpu, figure: Figure) -> None:
    # In a process of its own, whose end gives everything back.
    found = answers_of(pile_up, **({"FRUGAL_SIM_MAPPINGS": "4096"} if SIMULATED else {}))[0]
    figure("views of handles of 2 MiB at once", found["views"], "", found["refused"] or "no end was reached")
    if not found["refused"]:
        pytest.skip("no end was reached")
    assert not SIMULATED or found["views"] == 4096
    shown(found["serves_again"], "a view was taken away, and none could be had for it")


def pile_up() -> None:
    end = now() + _SECONDS_TO_STARVE * 1e9
    with opened_gpu() as gpu, gpu.handles(64, PAGE) as made:
        views, last, refused, serves_again = 0, 0, "", False
        try:
            while views < 2 * _LIMIT_OF_A_NODE and now() < end:
                start = gpu.reserve(len(made) * PAGE)
                for page, handle in zip(range(start, start + len(made) * PAGE, PAGE), made, strict=True):
                    gpu.map_handles(page, [handle], PAGE)
                    views, last = views + 1, page
        except DriverError as error:
            refused = f"{error.call}: {error.name}"
        if refused and last:
            gpu.call("cuMemUnmap", last, PAGE)
            with contextlib.suppress(DriverError):
                gpu.map_handles(last, made[:1], PAGE)
                serves_again = True
        tell(views=views, refused=refused, serves_again=serves_again)
        os._exit(0)

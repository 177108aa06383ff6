"""A driver that does not do all that it says, or says in other words that it is full: what is still found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frugal_alloc._command.doctor import aliasing, virtual_memory
from frugal_alloc._command.doctor.driver import DriverError
from gpu_check_run import report, said
from hardware import full_device, live_views

OUT_OF_MEMORY, NOT_PERMITTED, UNKNOWN = 2, 800, 999


class Gpu(virtual_memory.Gpu):
    """A driver whose calls are noted, and fail as they are told.

    Attributes:
        calls: their names, in order.
        live: how many handles are mapped.
    """

    def __init__(self, fails: Callable[[str, tuple[Any, ...]], int] = lambda name, arguments: 0) -> None:
        self._fails = fails
        self.device, self.calls, self.live = 0, [], 0

    def function(self, name: str) -> Callable[..., int]:
        def carry_out(*arguments: Any) -> int:
            self.calls.append(name)
            status = self._fails(name, arguments)
            if not status:
                self.live += {"cuMemMap": 1}.get(name, 0)
                self.live -= arguments[1] // virtual_memory.PAGE if name == "cuMemUnmap" else 0
            return status

        return carry_out

    def error(self, call: str, status: int) -> DriverError:
        return DriverError(call, status, f"ERROR_{status}", "it says")

    def memory_info(self) -> tuple[int, int]:
        return 1 << 36, 1 << 36

    def has(self, which: int) -> bool:
        return True


@pytest.mark.parametrize(
    "refused, export",
    [
        (lambda asked: False, (True, True)),
        (lambda asked: asked.flags.rdma, (False, True)),
        (lambda asked: asked.handle_types, (True, False)),
        (lambda asked: asked.flags.rdma or asked.handle_types, (False, False)),
    ],
)
@pytest.mark.parametrize("status", [NOT_PERMITTED, UNKNOWN])
def test_memory_is_asked_for_as_the_driver_grants_it(
    refused: Callable[[Any], bool], export: tuple[bool, bool], status: int
) -> None:
    gpu = Gpu(lambda name, arguments: status if name == "cuMemCreate" and refused(arguments[2]._obj) else 0)
    asked = gpu.properties()
    assert (bool(asked.flags.rdma), bool(asked.handle_types)) == export
    assert bool(gpu.export.problem) is (export != (True, True))
    assert gpu.live == 0


def test_memory_that_is_full_says_nothing_of_who_else_can_have_it() -> None:
    gpu = Gpu(lambda name, arguments: OUT_OF_MEMORY if name == "cuMemCreate" else 0)
    assert gpu.export == (True, True, "")


def test_handles_of_which_one_is_refused_are_unmapped_again() -> None:
    gpu = Gpu()
    gpu._fails = lambda name, arguments: UNKNOWN if name == "cuMemMap" and gpu.live == 3 else 0
    with pytest.raises(DriverError, match="cuMemMap"):
        gpu.map_handles(0, [1, 2, 3, 4, 5], virtual_memory.PAGE)
    assert gpu.live == 0


@pytest.mark.parametrize("status", [OUT_OF_MEMORY, UNKNOWN])
def test_views_that_the_driver_refuses_are_counted_whatever_it_says(tmp_path: Path, status: int) -> None:
    gpu = Gpu()
    gpu._fails = lambda name, arguments: status if name == "cuMemMap" and gpu.live == 5000 else 0
    live_views._pile_up(gpu, report(tmp_path))
    assert [check["outcome"] for check in said(tmp_path)] == ["passed"]
    (granted,) = (figure for figure in said(tmp_path, "figures") if figure["name"] == "views that the driver grants")
    assert granted["value"] == 3 * 1024
    assert f"ERROR_{status}" in granted["said"]
    assert gpu.live == 0


@pytest.mark.parametrize("status", [OUT_OF_MEMORY, UNKNOWN])
def test_device_is_full_when_no_more_is_granted_whatever_the_driver_says(status: int) -> None:
    gpu = Gpu()
    gpu._fails = lambda name, arguments: status if name == "cuMemMap" and gpu.live == 50 else 0
    full = full_device._Full(gpu, "handles")
    full.fill()
    assert full.bytes == 50 * virtual_memory.PAGE
    assert f"ERROR_{status}" in full.refused


def test_device_that_maps_nothing_at_all_is_not_full() -> None:
    full = full_device._Full(Gpu(), "handles")
    full._gpu._fails = lambda name, arguments: NOT_PERMITTED if name == "cuMemMap" else 0
    with pytest.raises(DriverError, match="cuMemMap"):
        full.fill()


def test_kernels_of_a_graph_were_launched_before_its_capture() -> None:
    gpu = Gpu()
    work = {name: lambda *_, name=name: gpu.calls.append(name) for name in ("write", "read")}
    aliasing._in_graph(SimpleNamespace(gpu=gpu, addresses=(1, 2), **work), "kernel", "kernel", [range(1)])
    before = gpu.calls[: gpu.calls.index("cuStreamBeginCapture_v2")]
    assert {"write", "read"} <= set(before)

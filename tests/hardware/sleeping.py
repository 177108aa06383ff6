"""P9: whether what slept comes back whole, how fast it goes and comes, and what others have of it meanwhile.

Beside ours, whole segments of PyTorch's allocator sleep as examples/stories/segments.py has it, and the bus is timed by
itself. Each way is a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.processes import answer_of
from frugal_alloc._command.doctor.step import Needs, StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB, MIB, opened_gpu

from . import kit

PINNED, PAGEABLE, SEGMENTS = "ours, pinned", "ours, pageable", "whole segments"
_WAYS = (PINNED, SEGMENTS, PAGEABLE)
_MOST = 16 * GIB
#: Of the host's memory that is available.
_HOST_SHARE = 0.25
_TURNS = 4
#: Of what is tagged, this part is dropped; of the pages that go, so much at least is free for others.
_DROPPED, _FREED = 0.5, 0.98
#: Weights of a layer, of which some die while they are loaded; and small ones.
_SIZES = (96 * MIB, 24 * MIB, 6 * MIB, 8 << 10)


def run(report: StepReport) -> None:
    carry_out(report, _WAYS, _MOST, _HOST_SHARE, report.rounds(_TURNS, 2))


def carry_out(report: StepReport, ways: tuple[str, ...], most: int, host_share: float, turns: int) -> None:
    with opened_gpu() as gpu:
        size = gpu.most_bytes(report, min(most, int(_available_host_bytes() * host_share)))
    for way in ways:
        if report.seconds_left() < 5:
            report.skip(way, "no time was left for it")
            continue
        with report.part(way):
            _tell(report, way, answer_of(_carry_out, way, size, turns))


def _available_host_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":") for line in file)
    return int(fields["MemAvailable"].split()[0]) << 10


def _tell(report: StepReport, way: str, found: dict[str, Any]) -> None:
    report.detail(way, **found)
    wrong, bytes_live, freed = found["wrong"], found["live"], found["freed"]
    report.check(f"{way}: values come back", not wrong, f"{wrong} of {found['tensors']} tensors wrong", Needs.VALUES)
    if way != SEGMENTS:
        part = freed / found["given_back"]
        report.check(f"{way}: memory goes to the driver", part >= _FREED, f"{part:.3f} of what was given back is free")
    report.figure(f"{way}: copied", found["copied"] / bytes_live, "times what lives")
    for what in ("sleep", "wake"):
        first, *later = found[what]
        said = f"{found['copied'] / min(later) / 1e6:.1f} GB/s; the first {first:.0f} ms"
        report.figure(f"{way}: to {what}, {bytes_live / GIB:.3g} GiB live", min(later), "ms", said)
    report.figure(f"{way}: the bus alone, out and in", found["bus"][0], "GB/s", f"{found['bus'][1]:.1f} in")


# --- In a process of its own.


def _carry_out(way: str, size: int, turns: int) -> None:
    import torch

    slept, live, found = _way(way), [], {"sleep": [], "wake": [], "copied": 0, "given_back": 0, "freed": 0}
    with slept.region("weights"):
        while sum(tensor.nbytes for tensor in live) < size * (1 - _DROPPED):
            live += [torch.arange(one // 8, device="cuda") + len(live) for one in _SIZES]
            dead = [torch.empty(one, dtype=torch.uint8, device="cuda") for one in _SIZES]
        del dead
    with slept.region("caches"):
        caches = torch.empty(int(size * _DROPPED), dtype=torch.uint8, device="cuda")
    found["live"], addresses = sum(tensor.nbytes for tensor in live), [tensor.data_ptr() for tensor in live]
    torch.cuda.empty_cache()
    for _ in range(turns):
        free = _free_bytes()
        began = now()
        found["copied"], found["given_back"] = slept.sleep()
        found["sleep"].append((now() - began) / 1e6)
        found["freed"] = _free_bytes() - free
        began = now()
        slept.wake()
        torch.cuda.synchronize()
        found["wake"].append((now() - began) / 1e6)
    caches.zero_()
    assert addresses == [tensor.data_ptr() for tensor in live]
    wrong = 0
    for place, tensor in enumerate(live):
        first = place // len(_SIZES) * len(_SIZES)
        wrong += not torch.equal(tensor, torch.arange(tensor.numel(), device="cuda") + first)
    print(json.dumps({**found, "wrong": wrong, "tensors": len(live), "bus": _bus()}), flush=True)
    # Whole segments have functions of Python's, which nobody may call as an interpreter ends.
    os._exit(0)


def _free_bytes() -> int:
    import torch

    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def _bus() -> tuple[float, float]:
    """GB/s from and to the GPU, with pinned memory."""
    import torch

    there = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    here = torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=True)
    rates = []
    for target, source in ((here, there), (there, here)):
        took = []
        for _ in range(4):
            began = now()
            target.copy_(source)
            torch.cuda.synchronize()
            took.append(now() - began)
        rates.append(256 * MIB / min(took))
    return rates[0], rates[1]


def _way(way: str) -> _Ours | _Segments:
    return _Segments() if way == SEGMENTS else _Ours("pinned" if way == PINNED else "pageable")


class _Ours:
    def __init__(self, host: str) -> None:
        import frugal_alloc

        frugal_alloc.enable()
        self._frugal, self._host = frugal_alloc, host
        self.region, self.wake = frugal_alloc.tag, frugal_alloc.wake

    def sleep(self) -> tuple[int, int]:
        """Bytes that were copied, and given back."""
        slept = self._frugal.sleep(("weights", "caches"), drop="caches", host=self._host)
        return slept.copied_bytes, slept.given_back_bytes


class _Segments:
    def __init__(self) -> None:
        sys.path.insert(0, str(kit.ROOT / "examples" / "stories"))
        import segments

        self._segments = segments.Segments(gives_back_empty=False)
        self.region = self._segments.region

    def sleep(self) -> tuple[int, int]:
        return self._segments.sleep(("weights",), ("caches",)), 0

    def wake(self) -> None:
        self._segments.wake(("weights", "caches"))

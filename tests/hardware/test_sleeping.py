"""Whether what slept comes back whole, how fast it goes and comes, and what others have of it meanwhile.

Beside ours, whole segments of PyTorch's allocator sleep as examples/stories/segments.py has it, and the bus is timed by
itself. Each way is a process of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.driver import GIB, MIB, Gpu

from hardware.on_gpu import SIMULATED, Figure, answers_of, most_bytes, tell

ROOT = Path(__file__).resolve().parents[2]
PINNED, PAGEABLE, SEGMENTS = "ours, pinned", "ours, pageable", "whole segments"
#: Of what is tagged, this part is dropped; of the pages that go, so much at least is free for others.
_DROPPED, _FREED = 0.5, 0.98
#: Weights of a layer, of which some die while they are loaded; and small ones.
_SIZES = (96 * MIB, 24 * MIB, 6 * MIB, 8 << 10)


@pytest.mark.parametrize("way", [PINNED, SEGMENTS, PAGEABLE])
def test_what_slept_comes_back_and_others_have_its_memory_meanwhile(way: str, gpu: Gpu, figure: Figure) -> None:
    _sleeps(way, most_bytes(gpu, min(16 * GIB, available_host_bytes() // 4)), 4, figure)


@pytest.mark.skipif(SIMULATED, reason="the simulated GPU has shown with less that this works")
def test_sixty_gibibytes_sleep_and_wake(gpu: Gpu, figure: Figure) -> None:
    """Or as much as this machine has room for: half is dropped."""
    _sleeps(PINNED, most_bytes(gpu, min(120 * GIB, int(1.2 * available_host_bytes()))), 3, figure)


def available_host_bytes() -> int:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10


def _sleeps(way: str, size: int, turns: int, figure: Figure) -> None:
    (found,) = answers_of(carry_out, way, size, turns, **({"FRUGAL_SIM_VALUES": "cpu"} if SIMULATED else {}))
    live = f"{found['live'] / GIB:.3g} GiB live"
    figure(f"{way}: copied", found["copied"] / found["live"], "times what lives")
    for what in ("sleep", "wake"):
        first, *later = found[what]
        said = f"{found['copied'] / min(later) / 1e6:.1f} GB/s; the first {first:.0f} ms"
        figure(f"{way}: to {what}, {live}", min(later), "ms", said)
    figure(f"{way}: the bus alone, out and in", found["bus"][0], "GB/s", f"{found['bus'][1]:.1f} in")
    assert (found["wrong"], found["tensors"] > 0, found["copied"] >= found["live"]) == (0, True, True), found
    if way != SEGMENTS:
        assert found["freed"] >= _FREED * found["given_back"], found


# --- In a process of its own.


def carry_out(way: str, size: int, turns: int) -> None:
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
        free, began = _free_bytes(), now()
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
    tell(**found, wrong=wrong, tensors=len(live), bus=_bus())
    # Whole segments have functions of Python's, which nobody may call as an interpreter ends.
    os._exit(0)


def _free_bytes() -> int:
    import torch

    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def _bus() -> list[float]:
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
    return rates


def _way(way: str) -> Any:
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
        sys.path.insert(0, str(ROOT / "examples" / "stories"))
        import segments

        self._segments = segments.Segments(gives_back_empty=False)
        self.region = self._segments.region

    def sleep(self) -> tuple[int, int]:
        return self._segments.sleep(("weights",), ("caches",)), 0

    def wake(self) -> None:
        self._segments.wake(("weights", "caches"))

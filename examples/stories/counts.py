"""What the simulated GPU counts: calls of the driver, the time that they would take, and memory in use."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence

import torch

MEMORY_KINDS = ("malloc", "free", "reserve", "unreserve", "create", "map", "set_access", "unmap", "release")
KINDS = ("create", "map", "set_access", "unmap", "release", "malloc", "free", "sync")


class Counts:
    """Of GPU 0 and this process."""

    def __init__(self) -> None:
        self._gpu = ctypes.CDLL(None)
        self._gpu.frugal_sim_calls.argtypes = [ctypes.c_char_p]
        for name in ("calls", "driver_ns", "memory_used", "memory_peak"):
            getattr(self._gpu, f"frugal_sim_{name}").restype = ctypes.c_uint64

    def memory(self) -> tuple[int, int]:
        """Bytes that were in use at most since it was asked last, and are now."""
        found = self._gpu.frugal_sim_memory_peak(0), self._gpu.frugal_sim_memory_used(0)
        self._gpu.frugal_sim_reset_counters()
        return found

    @contextlib.contextmanager
    def of(self) -> Iterator[dict[str, int]]:
        """The dictionary has, once the block has ended, its calls, their time, and how much memory went."""
        found: dict[str, int] = {}
        before = self._now()
        yield found
        after = self._now()
        found.update({name: after[name] - before[name] for name in after})
        found["given_back"] = -found.pop("used")

    def calls(self, kinds: Sequence[str] = KINDS) -> int:
        return sum(self._gpu.frugal_sim_calls(kind.encode()) for kind in kinds)

    def driver_ns(self) -> int:
        return self._gpu.frugal_sim_driver_ns()

    def _now(self) -> dict[str, int]:
        return {"calls": self.calls(), "driver_ns": self.driver_ns(), "used": self._gpu.frugal_sim_memory_used(0)}


def driver_effort() -> dict[str, int | None]:
    """Driver calls for memory so far, and the modelled time of all calls; on a real GPU its allocations and frees."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "frugal_sim_calls"):
        stats = torch.cuda.memory_stats()
        return {"driver_calls": stats["num_device_alloc"] + stats["num_device_free"], "driver_ns": None}
    counted = Counts()
    return {"driver_calls": counted.calls(MEMORY_KINDS), "driver_ns": counted.driver_ns()}

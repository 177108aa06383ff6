"""The simulated GPU's driver calls that can be made to fail, and how; see simulated_gpu/machine/control.h."""

from __future__ import annotations

import ctypes
from collections import Counter

UNKNOWN_KIND = 2**64 - 1  # as a count of calls
# Of the driver's functions, which the allocator alone calls, unless PyTorch has expandable segments.
KINDS = (
    *("create", "map", "set_access", "unmap", "release", "reserve"),
    *("sync", "event_create", "event_record", "event_query", "stream_wait"),
    *("capture_query", "memory_info", "context"),
)
# The late ones are told by the driver's call after the one that is meant.
ERRORS = ("out_of_memory", "invalid_value", "unknown", "late_out_of_memory", "late_unknown")


class SimulatedGpu:
    """What the simulated GPU tells beyond CUDA."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcudart.so.13")
        for name in ("frugal_sim_calls", "frugal_sim_faults", "frugal_sim_memory_used"):
            getattr(self._library, name).restype = ctypes.c_uint64

    def calls(self) -> Counter[str]:
        """How many calls of each kind have been made through the driver's functions."""
        calls = Counter({kind: self._library.frugal_sim_calls(f"driver.{kind}".encode()) for kind in KINDS})
        if max(calls.values()) == UNKNOWN_KIND:
            raise RuntimeError("the simulated GPU is older than this program: run tools/setup")
        return calls

    def fail(self, plan: str) -> None:
        if self._library.frugal_sim_set_faults(plan.encode()) != 0:
            raise ValueError(f"not a fault plan: {plan}")

    def end_failing(self) -> int:
        """No call fails from now on; how many have failed since :meth:`fail`."""
        faults = self._library.frugal_sim_faults()
        self._library.frugal_sim_set_faults(b"")
        return faults

    def memory_used(self, gpu: int) -> int:
        return self._library.frugal_sim_memory_used(gpu)

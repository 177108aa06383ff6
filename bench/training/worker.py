"""One program with one allocator, in a process of its own, which carries out what it is asked for over a pipe.

tests/hardware/throughput.py forks these from a process that has imported torch and nothing on the GPU.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
from multiprocessing.connection import Connection
from typing import Any

import torch

from . import EXPANDABLE, NATIVE, OURS, UNTRACKED, profiling, programs

COMPLETED, OUT_OF_MEMORY, FAILED = "completed", "out of memory", "failed"
MEMORY_CALLS = ("create", "map", "set_access", "unmap", "release", "reserve", "unreserve", "malloc", "free")


def serve(connection: Connection, task: dict[str, Any]) -> None:
    """Answers each request, a method's name and its arguments, until one is None; an error is the last answer."""
    try:
        os.nice(task.get("niceness", 0))
        program = Running(task)
        for name, *arguments in iter(connection.recv, None):
            connection.send({"outcome": COMPLETED, **getattr(program, name)(*arguments)})
    except Exception as error:  # whatever a step raises is an outcome to tell of
        outcome = OUT_OF_MEMORY if isinstance(error, torch.cuda.OutOfMemoryError) else FAILED
        problem = f"{type(error).__name__}: {error}".split("\n")[0][:300]
        connection.send({"outcome": outcome, "problem": problem})
    finally:
        # Without destructors: those of CUDA and Python have no common order.
        os._exit(0)


class Running:
    def __init__(self, task: dict[str, Any]) -> None:
        """The task: the program, the allocator, the most bytes that it may hold (None: all of them), whether it is to
        be small, and a seed."""
        self._task = task
        self._shapes = random.Random()

    def build(self) -> dict[str, Any]:
        """Carries out a first step, too, with which libraries load and compilers compile."""
        install(self._task["allocator"], self._task["capacity_bytes"])
        torch.manual_seed(self._task["seed"])
        self._by = "frugal" if self._task["allocator"] in (OURS, UNTRACKED) else self._task["allocator"]
        # Weights that are drawn on the host would take seconds.
        with torch.device("cuda"):
            self._step = programs.PROGRAMS[self._task["program"]].build(self._shapes, self._task["quick"])
        self._carry_out("first", 1)
        torch.cuda.synchronize()
        return {}

    def window(self, seed: int | str, steps: int) -> dict[str, Any]:
        """Steps between two moments at which the GPU has done all its work. A seed stands for their shapes."""
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        before, start = counted(self._by), time.perf_counter()
        began.record()
        self._carry_out(seed, steps)
        ended.record()
        enqueued = time.perf_counter()
        torch.cuda.synchronize()
        done, after = time.perf_counter(), counted(self._by)
        passed = {kind: count - before.get(kind, 0) for kind, count in after.items()}
        stats = torch.cuda.memory_stats()
        return {
            "steps": steps,
            "ms": (done - start) * 1e3 / steps,
            "host_ms": (enqueued - start) * 1e3 / steps,
            "gpu_ms": began.elapsed_time(ended) / steps,
            "driver_ms": passed.pop("ns", 0) / 1e6 / steps,
            "driver_calls": sum(passed.values()) / steps,
            "reserved_bytes": stats["reserved_bytes.all.peak"],
            "allocated_bytes": stats["allocated_bytes.all.peak"],
            "retries": stats["num_alloc_retries"],
        }

    def profile(self, steps: int) -> dict[str, Any]:
        return profiling.profile(lambda: self._carry_out("profile", steps), steps, self._by == "frugal")

    def _carry_out(self, seed: int | str, steps: int) -> None:
        self._shapes.seed(seed)
        torch.manual_seed(self._shapes.getrandbits(32))
        for _ in range(steps):
            self._step()


def install(allocator: str, capacity: int | None) -> None:
    """Puts the allocator in place, before anything is allocated.

    Args:
        capacity: the most bytes that it may hold; None: all that the GPU has.
    """
    if allocator == EXPANDABLE:
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    elif allocator != NATIVE:
        import frugal_alloc

        frugal_alloc.enable(track=allocator == OURS)
    if capacity is not None:
        torch.cuda.set_per_process_memory_fraction(min(1.0, capacity / torch.cuda.mem_get_info()[1]))


def counted(by: str) -> dict[str, int]:
    """Calls for memory by kind, and where it is known, as "ns", the time of all driver calls.

    Args:
        by: "gpu", the simulated one, which sees all; or the allocator that counts its own. PyTorch's count how often
            they took memory from the device and gave some back.
    """
    if by == "gpu":
        library = ctypes.CDLL(None)
        library.frugal_sim_calls.argtypes = [ctypes.c_char_p]
        library.frugal_sim_calls.restype = ctypes.c_uint64
        return {kind: library.frugal_sim_calls(kind.encode()) for kind in MEMORY_CALLS}
    if by == "frugal":
        import frugal_alloc

        stats = frugal_alloc.memory_stats()
        ns = [value for name, value in stats.items() if name.startswith("driver_") and name.endswith("_ns")]
        worst = [value for name, value in stats.items() if name.startswith("driver_") and name.endswith("_worst_ns")]
        return {kind: stats[f"driver_{kind}_calls"] for kind in MEMORY_CALLS} | {"ns": sum(ns) - sum(worst)}
    stats = torch.cuda.memory_stats()
    return {"malloc": stats.get("num_device_alloc", 0), "free": stats.get("num_device_free", 0)}

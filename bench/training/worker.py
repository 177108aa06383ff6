"""One training with one allocator, in a process of its own: ``python -m bench.training.worker TASK``.

The task comes as one argument in JSON, and names the file that the outcome goes to, in JSON too. tests/hardware starts
these on a real GPU, which is the only place where their speed says anything.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch

from . import workloads

MEMORY_CALLS = ("create", "map", "set_access", "unmap", "release", "reserve", "unreserve", "malloc", "free")


def on_simulated_gpu() -> bool:
    return hasattr(ctypes.CDLL(None), "frugal_sim_calls")


def counted(by: str) -> dict[str, int]:
    """Calls for memory by kind, and where it is known, as "ns", the time of all driver calls.

    Args:
        by: "gpu", the simulated one, which sees all; or the allocator that counts its own. PyTorch's count how often
            they took memory from the device and gave some back.
    """
    if by == "gpu":
        library = ctypes.CDLL(None)
        library.frugal_sim_calls.argtypes = [ctypes.c_char_p]
        library.frugal_sim_calls.restype = library.frugal_sim_driver_ns.restype = ctypes.c_uint64
        calls = {kind: library.frugal_sim_calls(kind.encode()) for kind in MEMORY_CALLS}
        return calls | {"ns": library.frugal_sim_driver_ns()}
    if by == "frugal":
        import frugal_alloc

        stats = frugal_alloc.memory_stats()
        ns = [value for name, value in stats.items() if name.startswith("driver_") and name.endswith("_ns")]
        worst = [value for name, value in stats.items() if name.startswith("driver_") and name.endswith("_worst_ns")]
        return {kind: stats[f"driver_{kind}_calls"] for kind in MEMORY_CALLS} | {"ns": sum(ns) - sum(worst)}
    stats = torch.cuda.memory_stats()
    return {"malloc": stats.get("num_device_alloc", 0), "free": stats.get("num_device_free", 0)}


def train(task: dict[str, Any]) -> dict[str, Any]:
    """Warms up, then times a window of steps between two points at which the GPU has done all its work."""
    _install(task["allocator"], task["capacity_bytes"])
    torch.manual_seed(task["seed"])
    by = "gpu" if on_simulated_gpu() else task["allocator"]
    outcome, problem, seconds, done = "completed", None, None, 0
    start = window_start = counted(by)
    try:
        step = workloads.build(task["workload"], random.Random(task["seed"]), task["quick"])
        while done < task["warm_up"]:
            step()
            done += 1
        torch.cuda.synchronize()
        window_start, began = counted(by), time.perf_counter()
        while done < task["warm_up"] + task["steps"]:
            step()
            done += 1
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    except Exception as error:  # whatever a step raises is an outcome to tell of
        outcome = "out_of_memory" if isinstance(error, torch.cuda.OutOfMemoryError) else "failed"
        problem = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    end = counted(by)
    calls, window = _passed(start, end), _passed(window_start, end) if outcome == "completed" else {}
    stats = torch.cuda.memory_stats()
    return {
        "outcome": outcome,
        "problem": problem,
        "steps_done": done,
        # With kernels that take no time, the speed would be that of this machine's CPU.
        "steps_per_second": None if seconds is None or on_simulated_gpu() else task["steps"] / seconds,
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "alloc_retries": stats["num_alloc_retries"],
        "ooms": stats["num_ooms"],
        "driver_ns": calls.pop("ns", None),
        "driver_calls": calls or None,
        "window_driver_ns": window.pop("ns", None),
        "window_driver_calls": window or None,
    }


def _install(allocator: str, capacity: int | None) -> None:
    """Puts the allocator in place, before anything is allocated; PyTorch's settings are in the environment.

    Args:
        capacity: the most bytes that it may hold; None: all that the GPU has.
    """
    if allocator == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    if capacity is not None:
        torch.cuda.set_per_process_memory_fraction(min(1.0, capacity / torch.cuda.mem_get_info()[1]))


def _passed(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {kind: count - before.get(kind, 0) for kind, count in after.items()}


def main() -> None:
    task = json.loads(sys.argv[1])
    Path(task["outcome_file"]).write_text(json.dumps(train(task)))
    # Without destructors: those of CUDA and Python have no common order.
    os._exit(0)


if __name__ == "__main__":
    main()

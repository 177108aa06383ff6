"""One training with one allocator, in a process of its own: started by runs.py.

The task comes as one argument in JSON, and names the file that the outcome goes to, in JSON too. The word "describe"
instead asks for the GPU and the versions that a task would meet, on standard output.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from . import allocators

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

        stats = frugal_alloc.stats()
        ns = [value for name, value in stats.items() if name.startswith("driver_") and name.endswith("_ns")]
        worst = [value for name, value in stats.items() if name.startswith("driver_") and name.endswith("_worst_ns")]
        return {kind: stats[f"driver_{kind}_calls"] for kind in MEMORY_CALLS} | {"ns": sum(ns) - sum(worst)}
    if by in ("native", "expandable"):
        import torch

        stats = torch.cuda.memory_stats()
        return {"malloc": stats.get("num_device_alloc", 0), "free": stats.get("num_device_free", 0)}
    return {}


def describe() -> dict[str, Any]:
    import torch

    try:
        import torchvision
    except ImportError:
        torchvision = None
    description: dict[str, Any] = {"torch": torch.__version__, "torchvision": getattr(torchvision, "__version__", None)}
    description |= {"cuda": torch.version.cuda, "gpu": None, "memory_bytes": None}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        description |= {"gpu": properties.name, "memory_bytes": properties.total_memory}
    return description


def train(task: dict[str, Any]) -> dict[str, Any]:
    """Warms up, then times a window of steps between two points at which the GPU has done all its work."""
    import torch

    from . import workloads

    memory = allocators.install(task["allocator"], task["capacity_bytes"])
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
        outcome = "out_of_memory" if memory.is_out_of_memory(error) else "failed"
        problem = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    end = counted(by)
    calls, window = _passed(start, end), _passed(window_start, end) if outcome == "completed" else {}
    return {
        "outcome": outcome,
        "problem": problem,
        "steps_done": done,
        # With kernels that take no time, the speed would be that of this machine's CPU.
        "steps_per_second": None if seconds is None or on_simulated_gpu() else task["steps"] / seconds,
        **memory.figures(),
        "driver_ns": calls.pop("ns", None),
        "driver_calls": calls or None,
        "window_driver_ns": window.pop("ns", None),
        "window_driver_calls": window or None,
    }


def _passed(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {kind: count - before.get(kind, 0) for kind, count in after.items()}


def main() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if sys.argv[1] == "describe":
        print(json.dumps(describe()), flush=True)
    else:
        task = json.loads(sys.argv[1])
        Path(task["outcome_file"]).write_text(json.dumps(train(task)))
    # Without destructors: those of RMM, CUDA and Python have no common order.
    os._exit(0)


if __name__ == "__main__":
    main()

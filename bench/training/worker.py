"""One training with one allocator, in a process of its own: started by runs.py.

The task comes as one argument in JSON, and names the file that the outcome goes to, in JSON too. The word "describe"
instead asks for the GPU and the versions that a task would meet, on standard output.
"""

from __future__ import annotations

import ctypes
import dataclasses
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


def _on_simulated_gpu() -> bool:
    return hasattr(ctypes.CDLL(None), "frugal_sim_calls")


class _DriverCalls:
    """What was asked of the driver from here on: by the simulated GPU's count, or the allocator's."""

    def __init__(self, allocator: str) -> None:
        self._read = _counted_by_the_gpu if _on_simulated_gpu() else _COUNTED_BY.get(allocator, dict)
        self._start = self._read()

    def so_far(self) -> tuple[dict[str, int] | None, int | None]:
        """Calls for memory by kind, and the time of all driver calls in nanoseconds; None where nobody knows."""
        passed = {kind: count - self._start.get(kind, 0) for kind, count in self._read().items()}
        ns = passed.pop("ns", None)
        return passed or None, ns


def _counted_by_the_gpu() -> dict[str, int]:
    library = ctypes.CDLL(None)
    calls, ns = library.frugal_sim_calls, library.frugal_sim_driver_ns
    calls.restype = ns.restype = ctypes.c_uint64
    calls.argtypes = [ctypes.c_char_p]
    return {**{kind: calls(kind.encode()) for kind in MEMORY_CALLS}, "ns": ns()}


def _counted_by_us() -> dict[str, int]:
    """With the wall's time of every call that frugal_alloc made."""
    import frugal_alloc

    stats = frugal_alloc.stats()
    times = [name for name in stats if name.startswith("driver_") and name.endswith("_ns")]
    ns = sum(stats[name] for name in times if not name.endswith("_worst_ns"))
    return {**{kind: stats[f"driver_{kind}_calls"] for kind in MEMORY_CALLS}, "ns": ns}


def _counted_by_pytorch() -> dict[str, int]:
    """How often its allocators took memory from the device and gave some back; how long that took, they do not tell."""
    import torch

    stats = torch.cuda.memory_stats()
    return {"malloc": stats.get("num_device_alloc", 0), "free": stats.get("num_device_free", 0)}


_COUNTED_BY = {"frugal": _counted_by_us, "native": _counted_by_pytorch, "expandable": _counted_by_pytorch}


def describe() -> dict[str, Any]:
    import torch

    try:
        import torchvision
    except ImportError:
        torchvision = None
    found: dict[str, Any] = {"torch": torch.__version__, "torchvision": getattr(torchvision, "__version__", None)}
    found |= {"cuda": torch.version.cuda, "gpu": None, "memory_bytes": None}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found |= {"gpu": properties.name, "memory_bytes": properties.total_memory}
    return found


def train(task: dict[str, Any]) -> dict[str, Any]:
    """Warms up, then times a window of steps between two points at which the GPU has done all its work."""
    import torch

    from . import workloads

    memory = allocators.install(task["allocator"], task["capacity_bytes"])
    torch.manual_seed(task["seed"])
    everything = _DriverCalls(task["allocator"])
    outcome, problem, seconds, window = "completed", None, None, everything
    done = 0
    try:
        step = workloads.build(task["workload"], random.Random(task["seed"]), task["quick"])
        while done < task["warm_up"]:
            step()
            done += 1
        torch.cuda.synchronize()
        window, start = _DriverCalls(task["allocator"]), time.perf_counter()
        while done < task["warm_up"] + task["steps"]:
            step()
            done += 1
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    except Exception as error:  # whatever a step raises is an outcome to tell of
        outcome = "out_of_memory" if memory.is_out_of_memory(error) else "failed"
        problem = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    calls, driver_ns = everything.so_far()
    window_calls, window_ns = window.so_far() if outcome == "completed" else (None, None)
    return {
        "outcome": outcome,
        "problem": problem,
        "steps_done": done,
        # With kernels that take no time, the speed would be that of this machine's CPU.
        "steps_per_second": None if seconds is None or _on_simulated_gpu() else task["steps"] / seconds,
        **dataclasses.asdict(memory.figures()),
        "driver_calls": calls,
        "driver_ns": driver_ns,
        "window_driver_calls": window_calls,
        "window_driver_ns": window_ns,
    }


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

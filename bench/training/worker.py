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


class _DriverCalls:
    """What the simulated GPU has counted from here on; on a real one there is nothing to tell."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.simulated = hasattr(library, "frugal_sim_calls")
        if self.simulated:
            self._calls, self._ns = library.frugal_sim_calls, library.frugal_sim_driver_ns
            self._calls.restype = self._ns.restype = ctypes.c_uint64
            self._calls.argtypes = [ctypes.c_char_p]
            self._start = self._read()

    def _read(self) -> dict[str, int]:
        counts = {kind: self._calls(kind.encode()) for kind in MEMORY_CALLS}
        return {**counts, "ns": self._ns()}

    def so_far(self) -> tuple[dict[str, int] | None, int | None]:
        """Calls for memory by kind, and the modelled time of all driver calls in nanoseconds."""
        if not self.simulated:
            return None, None
        passed = {kind: count - self._start[kind] for kind, count in self._read().items()}
        return passed, passed.pop("ns")


def describe() -> dict[str, Any]:
    import torch
    import torchvision

    found: dict[str, Any] = {"torch": torch.__version__, "torchvision": torchvision.__version__}
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
    everything = _DriverCalls()
    outcome, problem, seconds, window = "completed", None, None, everything
    done = 0
    try:
        step = workloads.build(task["workload"], random.Random(task["seed"]), task["quick"])
        while done < task["warm_up"]:
            step()
            done += 1
        torch.cuda.synchronize()
        window, start = _DriverCalls(), time.perf_counter()
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
        "steps_per_second": None if seconds is None or everything.simulated else task["steps"] / seconds,
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

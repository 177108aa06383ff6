"""Plays one history through one allocator, in a process of its own: started by _replay.py.

It runs without torch and without the rest of this package: libc10 and libc10_cuda are all that an allocator needs, and
load in milliseconds. The task comes as one argument in JSON, the events on standard input; the outcome goes to standard
output in JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

# As in bindings/replay/request.h, which says what the fields mean.
CALL_KINDS = (
    "create",
    "map",
    "set_access",
    "unmap",
    "release",
    "malloc",
    "free",
    "sync",
    "event_record",
    "event_query",
    "stream_wait",
)
_OUTCOMES = ("completed", "out_of_memory", "failed")


RUN_STATES = ("live", "awaiting", "free", "hole")
# Far above what a picture has; beyond it, there is none.
_MOST_RUNS = 1 << 20


class Run(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("state", ctypes.c_uint64)]


class Costs(ctypes.Structure):
    _fields_ = [
        ("driver_calls", ctypes.c_uint64 * len(CALL_KINDS)),
        ("driver_ns", ctypes.c_uint64),
        ("host_ns", ctypes.c_uint64),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("events", ctypes.c_char_p),
        ("event_count", ctypes.c_uint64),
        ("initial_count", ctypes.c_uint64),
        ("allocation_count", ctypes.c_uint32),
        ("stream_count", ctypes.c_uint32),
        ("passes", ctypes.c_uint32),
        ("stream_lag", ctypes.c_uint32),
        ("steady_from", ctypes.c_uint64),
        ("samples", ctypes.POINTER(ctypes.c_uint64)),
        ("sample_count", ctypes.c_uint64),
        ("runs", ctypes.POINTER(Run)),
        ("run_capacity", ctypes.c_uint64),
        ("picture_at", ctypes.c_uint64),
        ("limit_bytes", ctypes.c_uint64),
        ("real_time", ctypes.c_uint32),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("failed_at", ctypes.c_uint64),
        ("peak_reserved_bytes", ctypes.c_uint64),
        ("peak_reserved_at", ctypes.c_uint64),
        ("driver_ns_to_peak", ctypes.c_uint64),
        ("run_count", ctypes.c_uint64),
        ("costs", Costs),
        ("steady", Costs),
        ("steady_allocations", ctypes.c_uint64),
        ("ns_per_pair", ctypes.c_double),
        ("order_accesses", ctypes.c_uint64),
        ("message", ctypes.c_char * 1024),
    ]


def play(task: dict[str, Any], events: bytes) -> dict[str, Any]:
    for name in ("libc10.so", "libc10_cuda.so"):
        ctypes.CDLL(os.path.join(task["torch_libraries"], name), mode=ctypes.RTLD_GLOBAL)
    replay = ctypes.CDLL(task["replay_library"]).frugal_replay
    replay.argtypes = [ctypes.POINTER(Request), ctypes.POINTER(Result)]
    if task["allocator_library"]:
        _install(task["allocator_library"])
    samples = (ctypes.c_uint64 * task["sample_count"])()
    runs = (Run * _MOST_RUNS)() if task["picture_at"] is not None else None
    request = Request(
        events,
        task["event_count"],
        task["initial_count"],
        task["allocation_count"],
        task["stream_count"],
        task["passes"],
        task["stream_lag"],
        task["steady_from"],
        samples,
        len(samples),
        runs,
        _MOST_RUNS if runs else 0,
        task["picture_at"] or 0,
        task["limit_bytes"] or 0,
        task["real_time"],
    )
    result = Result()
    outcome = _OUTCOMES[replay(ctypes.byref(request), ctypes.byref(result))]
    return {"outcome": outcome, "samples": list(samples), "runs": _listed(runs, result.run_count), **_figures(result)}


def _figures(result: Result) -> dict[str, Any]:
    return {
        "message": result.message.decode(errors="replace"),
        "failed_at": result.failed_at,
        "peak_reserved_bytes": result.peak_reserved_bytes,
        "peak_reserved_at": result.peak_reserved_at,
        "driver_ns_to_peak": result.driver_ns_to_peak,
        "driver_calls": _calls(result.costs),
        "driver_ns": result.costs.driver_ns,
        "host_ns": result.costs.host_ns,
        "steady_calls": _calls(result.steady),
        "steady_driver_ns": result.steady.driver_ns,
        "steady_host_ns": result.steady.host_ns,
        "steady_allocations": result.steady_allocations,
        "order_accesses": result.order_accesses,
        "ns_per_pair": result.ns_per_pair if result.ns_per_pair >= 0 else None,
    }


def _calls(costs: Costs) -> dict[str, int]:
    return dict(zip(CALL_KINDS, costs.driver_calls, strict=True))


def _listed(runs: ctypes.Array[Run] | None, count: int) -> list[tuple[int, int, str]]:
    if runs is None or count > len(runs):
        return []
    return [(run.address, run.bytes, RUN_STATES[run.state]) for run in runs[:count]]


def _install(path: str) -> None:
    # For all, since the replay asks it how long its driver took.
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    library.frugal_enable.restype = ctypes.c_int
    library.frugal_last_error.restype = ctypes.c_char_p
    if library.frugal_enable() != 0:
        sys.exit(library.frugal_last_error().decode(errors="replace"))


if __name__ == "__main__":
    json.dump(play(json.loads(sys.argv[1]), sys.stdin.buffer.read()), sys.stdout)
    sys.stdout.flush()
    # Without the destructors of libraries: c10's and the simulated GPU's have no common order.
    os._exit(0)

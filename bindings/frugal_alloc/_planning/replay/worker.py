"""Plays one history through one allocator, in a process of its own: started by replays.py.

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


# As bindings/replay/request.h has it, which says what the fields mean.
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
        ("limit_bytes", ctypes.c_uint64),
        ("real_time", ctypes.c_uint32),
    ]


def play(task: dict[str, Any], events: bytes) -> bytes:
    """The outcome, in JSON."""
    for name in ("libc10.so", "libc10_cuda.so"):
        ctypes.CDLL(os.path.join(task["torch_libraries"], name), mode=ctypes.RTLD_GLOBAL)
    replay = ctypes.CDLL(task["replay_library"]).frugal_replay
    replay.argtypes, replay.restype = [ctypes.POINTER(Request)], ctypes.c_char_p
    if task["allocator_library"]:
        _install(task["allocator_library"])
    request = Request(events=events, **task["request"])
    return replay(ctypes.byref(request))


def _install(path: str) -> None:
    # For all, since the replay asks it how long its driver took.
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    library.frugal_enable.restype = ctypes.c_int
    library.frugal_last_error.restype = ctypes.c_char_p
    if library.frugal_enable() != 0:
        sys.exit(library.frugal_last_error().decode(errors="replace"))


if __name__ == "__main__":
    sys.stdout.buffer.write(play(json.loads(sys.argv[1]), sys.stdin.buffer.read()))
    sys.stdout.flush()
    # Without the destructors of libraries: c10's and the simulated GPU's have no common order.
    os._exit(0)

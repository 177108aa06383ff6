"""What processes answer, and the picture of some that could be."""

from __future__ import annotations

from typing import Any

from frugal_alloc._command.top import picture

GIB = 1 << 30
#: Of a process without a GPU.
ANSWER = {
    "schema": "frugal_alloc.live",
    "version": 1,
    "age_seconds": 3725.0,
    "command": ["/usr/bin/python3", "/home/somebody/project/train.py", "--lr", "0.1"],
    "simulated": False,
    "node": "",
    "tracking": True,
    "epochs": 3,
    "gpus": [],
    "verdicts": [],
}
POOL = {
    "gpu": 0,
    "line": "",
    "captured": True,
    "released": False,
    "reserved_bytes": 1 << 20,
    "allocated_bytes": 0,
    "idle_bytes": 0,
}
VERDICT = {"kind": "leak", "gpu": 0, "bytes_per_epoch": 1, "text": ""}
NOBODY = {"processes": [], "gpus": [], "of_other_users": 0, "left_out": 0}


def gpu(number: int = 0, **changes: Any) -> dict[str, Any]:
    """Of an answer."""
    return {
        "gpu": number,
        "name": "NVIDIA H100",
        "uuid": f"GPU-{number}",
        "total_bytes": 80 * GIB,
        "free_bytes": 20 * GIB,
        "limit_bytes": 0,
        "allocated_bytes": 30 * GIB,
        "reserved_bytes": 40 * GIB,
        "waste_bytes": 10 * GIB,
        "peak_allocated_bytes": 35 * GIB,
        "stitches": 1234,
        "out_of_memory_errors": 0,
        "last_out_of_memory": None,
        "asleep_bytes": 0,
        **changes,
    }


def process(pid: int, *gpus: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Of a picture."""
    return {**ANSWER, "pid": pid, "problem": None, "gpus": list(gpus) or [gpu()], **changes}


def of(*processes: dict[str, Any]) -> dict[str, Any]:
    """The picture of these processes."""
    return {**NOBODY, "processes": list(processes), "gpus": picture.sums(list(processes))}

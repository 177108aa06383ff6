"""All that is seen at one moment, per process and per GPU, as plain data: the document of ``--json``."""

from __future__ import annotations

import datetime
import os
from typing import Any

from .._amounts import short_path
from . import sockets

SCHEMA = "frugal_alloc.top"
VERSION = 1

_SUMS = ("in_use_bytes", "held_bytes", "waste_bytes", "stitches", "out_of_memory_errors")


def take() -> dict[str, Any]:
    """The document as of now (docs/monitoring.md)."""
    seen = sockets.look()
    processes = [_process(one) for one in seen.processes]
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "taken": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "processes": processes,
        "gpus": _gpus(processes),
        "of_other_users": seen.foreign,
        "left_out": seen.left_out,
    }


def _process(seen: sockets.Process) -> dict[str, Any]:
    answer = seen.answer
    if answer is None:
        return {"pid": seen.pid, "problem": seen.problem}
    return {
        "pid": seen.pid,
        "problem": None,
        "age_seconds": answer.age_seconds,
        "command": list(answer.command),
        "simulated": answer.simulated,
        "node": answer.node,
        "tracking": answer.tracking,
        "epochs": answer.epochs,
        "gpus": [gpu._asdict() for gpu in answer.gpus],
        "verdicts": [verdict._asdict() for verdict in answer.verdicts],
    }


def _gpus(processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sums of each GPU, whatever numbers the processes give it."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for process in processes:
        for gpu in process.get("gpus", ()):
            row = rows.setdefault(
                _identity(process, gpu),
                {
                    "gpu": gpu["gpu"],
                    "name": gpu["name"],
                    "uuid": gpu["uuid"],
                    "simulated": process["simulated"],
                    "total_bytes": gpu["total_bytes"],
                    "free_bytes": gpu["free_bytes"],
                    "processes": [],
                    **dict.fromkeys(_SUMS, 0),
                },
            )
            row["processes"].append(process["pid"])
            row["gpu"] = min(row["gpu"], gpu["gpu"])
            for name in _SUMS:
                row[name] += gpu[name]
            # They were asked one after another.
            frees = [size for size in (row["free_bytes"], gpu["free_bytes"]) if size is not None]
            row["free_bytes"] = min(frees, default=None)
    return sorted(rows.values(), key=lambda row: (row["gpu"], row["uuid"], row["processes"]))


def _identity(process: dict[str, Any], gpu: dict[str, Any]) -> tuple[Any, ...]:
    """What two processes have in common that use one GPU. A simulated one is of its process alone, or of a node."""
    if process["simulated"] and not process["node"]:
        return "process", process["pid"], gpu["gpu"]
    return process["node"], gpu["uuid"] or gpu["gpu"]


def command_of(process: dict[str, Any]) -> str:
    """The command line as people know it: a script without its interpreter, or a program without its folder."""
    words = process["command"]
    if not words:
        return "(unknown)"
    if len(words) > 1 and words[1].endswith(".py"):
        return " ".join([short_path(words[1]), *words[2:]])
    return " ".join([os.path.basename(words[0]), *words[1:]])

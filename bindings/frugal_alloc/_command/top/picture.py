"""All that is seen at one moment, per process and per GPU, as plain data: the document of ``--json``."""

from __future__ import annotations

import dataclasses
import datetime
import os
from typing import Any

from ..._common.messages import short_path
from . import sockets

SCHEMA = "frugal_alloc.top"
VERSION = 1

_SUMS = ("allocated_bytes", "reserved_bytes", "waste_bytes", "stitches", "out_of_memory_errors")


def take() -> dict[str, Any]:
    """The document as of now (docs/monitoring.md)."""
    seen = sockets.look()
    processes = [_process(process) for process in seen.processes]
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "taken": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "processes": processes,
        "gpus": sums(processes),
        "of_other_users": seen.foreign,
        "left_out": seen.left_out,
    }


def _process(seen: sockets.Process) -> dict[str, Any]:
    answer = {} if seen.answer is None else dataclasses.asdict(seen.answer)
    lists = {name: list(value) for name, value in answer.items() if isinstance(value, tuple)}
    return {"pid": seen.pid, "problem": seen.problem or None, **answer, **lists}


def sums(processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sums of each GPU, whatever numbers the processes give it."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for process in processes:
        for gpu in process.get("gpus", ()):
            fresh = {name: gpu[name] for name in ("gpu", "name", "uuid")} | {"simulated": process["simulated"]}
            fresh |= {name: gpu[name] for name in ("total_bytes", "free_bytes")}
            row = rows.setdefault(_identity(process, gpu), {**fresh, "processes": [], **dict.fromkeys(_SUMS, 0)})
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
    """The command line as people know it."""
    return " ".join(_known_words(process["command"])) or "(unknown)"


def program_of(process: dict[str, Any]) -> str:
    """The script's name, or the program's. As a label of metrics, arguments would make a new series of each run."""
    command = process["command"]
    words = [word for word in command[1:] if word.endswith(".py")][:1] or _known_words(command)[:1]
    return os.path.basename(words[0]) if words else ""


def _known_words(command: list[str]) -> list[str]:
    """The program first: a script without its interpreter, or a program without its folder. Of what
    ``frugal-alloc run`` has started, what it was told to run."""
    own = _words_of_run(command)
    if own and own[0] != "-m":
        return [short_path(own[0]), *own[1:]]
    words = [*command[:1], *own] if own else command
    if len(words) > 1 and words[1].endswith(".py"):
        return [short_path(words[1]), *words[2:]]
    return [os.path.basename(words[0]), *words[1:]] if words else []


def _words_of_run(command: list[str]) -> list[str]:
    """What follows ``frugal-alloc run``, or ``python -m frugal_alloc run``; [] where neither is there."""
    words = _without_interpreter(command)
    if words[:2] == ["-m", "frugal_alloc"]:
        words = words[1:]
    elif not words or os.path.basename(words[0]) != "frugal-alloc":
        return []
    if words[1:2] != ["run"]:
        return []
    return words[3:] if words[2:3] == ["--"] else words[2:]


def _without_interpreter(command: list[str]) -> list[str]:
    """What follows Python and its own options."""
    at = 1
    while at < len(command) and command[at].startswith("-") and command[at] not in ("-m", "-c", "-"):
        at += 2 if command[at] in ("-W", "-X") else 1
    return command[at:]

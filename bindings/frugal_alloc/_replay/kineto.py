"""Reads a Kineto (Chrome) trace of a profile with ``profile_memory=True``."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from .history import MAX_SIZE
from .history_builder import HistoryBuilder
from .recorded_fields import Malformed, checked_list, checked_number, shown

# The trace tells how much was allocated before it began, but not in which pieces.
_UNEXPLAINED_CHUNK_BYTES = 16 << 20


def read(trace: dict[str, Any]) -> HistoryBuilder:
    """Its ``[memory]`` instants: sizes as the allocator rounded them, no streams. Of several devices, the busiest."""
    entries = sorted(_memory_instants(trace), key=lambda entry: (entry["ts"], entry["args"]["Ev Idx"]))
    devices = collections.Counter(entry["args"].get("Device Id") for entry in entries)
    device = devices.most_common(1)[0][0] if devices else None
    instants = [entry["args"] for entry in entries if entry["args"].get("Device Id") == device]
    builder = HistoryBuilder()
    for arguments in instants:
        address, size = checked_number(arguments, "Addr"), arguments["Bytes"]
        if size > 0:
            builder.allocate(address, size, stream=0)
        elif size < 0:
            builder.free(address, -size, stream=0)
    if instants:
        before = checked_number(instants[0], "Total Allocated", MAX_SIZE) - instants[0]["Bytes"]
        builder.add_survivors(_chunks(before - builder.initial_bytes))
    return builder


def _memory_instants(trace: dict[str, Any]) -> Iterable[dict[str, Any]]:
    cuda = 1
    for entry in checked_list(trace["traceEvents"], "traceEvents"):
        if not isinstance(entry, dict) or entry.get("name") != "[memory]":
            continue
        arguments = entry.get("args")
        if not isinstance(arguments, dict) or arguments.get("Device Type") != cuda:
            continue
        if type(entry.get("ts")) not in (int, float) or type(arguments.get("Ev Idx")) is not int:
            raise Malformed("a [memory] event has no time; the file is damaged")
        if type(arguments.get("Device Id", 0)) is not int:
            raise Malformed("a [memory] event names no device; the file is damaged")
        if type(arguments.get("Bytes")) is not int or abs(arguments["Bytes"]) > MAX_SIZE:
            raise Malformed(f"a [memory] event's 'Bytes' is {shown(arguments.get('Bytes'))}; the file is damaged")
        yield entry


def _chunks(size: int) -> Iterable[tuple[int, int, int]]:
    """`size` bytes that no event explains, at addresses that none can have."""
    address = -1
    while size > 0:
        chunk = min(size, _UNEXPLAINED_CHUNK_BYTES)
        yield address, chunk, 0
        size -= chunk
        address -= 1

"""Reads a Kineto (Chrome) trace of a profile with ``profile_memory=True``."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from .._common.shapes import shown
from .._native import journal
from .._native.journal import JournalEntry
from .history import MAX_SIZE
from .history_builder import HistoryBuilder, entry
from .recorded_fields import Malformed, checked_list, checked_number

# The trace tells how much was allocated before it began, but not in which pieces.
_UNEXPLAINED_CHUNK_BYTES = 16 << 20


def read(trace: dict[str, Any]) -> HistoryBuilder:
    """Its ``[memory]`` instants: sizes as the allocator rounded them, no streams. Of several devices, the busiest."""
    recorded = sorted(_memory_instants(trace), key=lambda instant: (instant["ts"], instant["args"]["Ev Idx"]))
    devices = collections.Counter(instant["args"].get("Device Id") for instant in recorded)
    device = devices.most_common(1)[0][0] if devices else None
    instants = [instant["args"] for instant in recorded if instant["args"].get("Device Id") == device]
    builder = HistoryBuilder()
    for arguments in instants:
        address, size = checked_number(arguments, "Addr"), arguments["Bytes"]
        if size:
            kind = journal.ALLOCATION if size > 0 else journal.FREE_COMPLETED
            builder.take(entry(kind, address, abs(size)))
    if instants:
        before = checked_number(instants[0], "Total Allocated", MAX_SIZE) - instants[0]["Bytes"]
        builder.add_survivors(_chunks(before - builder.initial_bytes))
    return builder


def _memory_instants(trace: dict[str, Any]) -> Iterable[dict[str, Any]]:
    cuda = 1
    for instant in checked_list(trace["traceEvents"], "traceEvents"):
        if not isinstance(instant, dict) or instant.get("name") != "[memory]":
            continue
        arguments = instant.get("args")
        if not isinstance(arguments, dict) or arguments.get("Device Type") != cuda:
            continue
        if type(instant.get("ts")) not in (int, float) or type(arguments.get("Ev Idx")) is not int:
            raise Malformed("a [memory] event has no time; the file is damaged")
        if type(arguments.get("Device Id", 0)) is not int:
            raise Malformed("a [memory] event names no device; the file is damaged")
        if type(arguments.get("Bytes")) is not int or abs(arguments["Bytes"]) > MAX_SIZE:
            raise Malformed(f"a [memory] event's 'Bytes' is {shown(arguments.get('Bytes'))}; the file is damaged")
        yield instant


def _chunks(size: int) -> Iterable[JournalEntry]:
    """`size` bytes that no event explains, at addresses that none can have."""
    address = -1
    while size > 0:
        chunk = min(size, _UNEXPLAINED_CHUNK_BYTES)
        yield entry(journal.ALLOCATION, address, chunk)
        size -= chunk
        address -= 1

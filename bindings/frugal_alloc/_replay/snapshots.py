"""Reads what ``torch.cuda.memory._dump_snapshot`` writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .history import MAX_SIZE
from .history_builder import BuiltEvent, HistoryBuilder
from .recorded_fields import Malformed, checked_list, checked_number


def read(snapshot: dict[str, Any]) -> HistoryBuilder:
    """Of several devices, the one with most entries."""
    traces = [
        checked_list(trace, "trace of a device") for trace in checked_list(snapshot["device_traces"], "device_traces")
    ]
    if not traces:
        raise Malformed("it has no device; record it on a machine with a GPU")
    device = max(range(len(traces)), key=lambda number: len(traces[number]))
    builder = HistoryBuilder()
    pending = _add_trace(builder, traces[device])
    builder.add_survivors(_survivors(snapshot, device, pending))
    return builder


def _add_trace(builder: HistoryBuilder, trace: list[Any]) -> set[int]:
    """Adds a device's entries and returns the addresses that were freed but not yet out of use at the end.

    A free is requested, and completes at once unless another stream uses the memory (``record_stream``). Of a free that
    was requested before the recording, or by a tool that keeps completions only, there is the completion alone.
    """
    pending: dict[int, tuple[int, BuiltEvent]] = {}
    for index, entry in enumerate(trace):
        action = entry.get("action") if isinstance(entry, dict) else None
        if action == "alloc":
            builder.allocate(*_memory(entry))
        elif action == "free_requested":
            address = checked_number(entry, "addr")
            pending[address] = (
                index,
                builder.free(*_memory(entry)),
            )
        elif action == "free_completed":
            address = checked_number(entry, "addr")
            if address not in pending:
                builder.free(*_memory(entry))
                continue
            requested_at, free = pending.pop(address)
            if requested_at != index - 1:
                builder.mark_late(free, done=True)
        elif not isinstance(action, str):
            raise Malformed(f"entry {index} of its trace has no action; the file is damaged")
    for _, free in pending.values():
        builder.mark_late(free, done=False)
    return set(pending)


def _memory(entry: dict[str, Any]) -> tuple[int, int, int]:
    """Address, size and stream."""
    return checked_number(entry, "addr"), checked_number(entry, "size", MAX_SIZE), checked_number(entry, "stream")


def _survivors(snapshot: dict[str, Any], device: int, pending: set[int]) -> Iterable[tuple[int, int, int]]:
    for segment in checked_list(snapshot.get("segments"), "segments"):
        if checked_number(segment, "device") != device:
            continue
        # Snapshots of before torch 2.1 do not say where a block is; blocks of a segment follow one another.
        address = checked_number(segment, "address")
        stream = checked_number(segment, "stream")
        for block in checked_list(segment.get("blocks"), "list of blocks"):
            size = checked_number(block, "size", MAX_SIZE)
            address = checked_number(block, "address") if "address" in block else address
            state = block.get("state")
            if isinstance(state, str) and state.startswith("active") and address not in pending:
                requested = checked_number(block, "requested_size", MAX_SIZE) if "requested_size" in block else size
                yield address, requested, stream
            address += size

"""Reads what ``torch.cuda.memory._dump_snapshot`` writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._native import journal
from .._native.journal import JournalEntry
from .history import MAX_SIZE
from .history_builder import HistoryBuilder, entry
from .recorded_fields import Malformed, checked_list, checked_number

# A free is requested, and completes at once unless another stream uses the memory (``record_stream``). Of a free that
# was requested before the recording, or by a tool that keeps completions only, there is the completion alone.
_KINDS = {
    "alloc": journal.ALLOCATION,
    "free_requested": journal.FREE_REQUESTED,
    "free_completed": journal.FREE_COMPLETED,
}


def read(snapshot: dict[str, Any]) -> HistoryBuilder:
    """Of several devices, the one with most entries."""
    traces = [
        checked_list(trace, "trace of a device") for trace in checked_list(snapshot["device_traces"], "device_traces")
    ]
    if not traces:
        raise Malformed("it has no device; record it on a machine with a GPU")
    device = max(range(len(traces)), key=lambda number: len(traces[number]))
    builder = HistoryBuilder()
    for index, recorded in enumerate(traces[device]):
        action = recorded.get("action") if isinstance(recorded, dict) else None
        if not isinstance(action, str):
            raise Malformed(f"entry {index} of its trace has no action; the file is damaged")
        if action in _KINDS:
            size = checked_number(recorded, "size", MAX_SIZE)
            builder.take(
                entry(_KINDS[action], checked_number(recorded, "addr"), size, checked_number(recorded, "stream"))
            )
    builder.add_survivors(_survivors(snapshot, device, builder))
    return builder


def _survivors(snapshot: dict[str, Any], device: int, builder: HistoryBuilder) -> Iterable[JournalEntry]:
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
            if isinstance(state, str) and state.startswith("active") and not builder.is_awaiting(address):
                requested = checked_number(block, "requested_size", MAX_SIZE) if "requested_size" in block else size
                yield entry(journal.ALLOCATION, address, requested, stream)
            address += size

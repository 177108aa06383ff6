"""Reads recordings that somebody else made: each field is what it must be, or the recording is refused.

There may be millions of fields: so they are not read by the annotations of a dataclass.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from ..._common.shapes import shown
from ..._native import journal
from ..._native.journal import JournalEntry
from .history import ALLOCATE, EVENT, FREE, MAX_EVENTS, MAX_SIZE, MAX_STREAMS, History, Malformed
from .history_builder import HistoryBuilder, entry

# A snapshot has a free as it is requested, and as it completes: at once unless another stream uses the memory
# (``record_stream``). Of one that was requested before the recording, or by a tool that keeps completions only, there
# is the completion alone.
_KINDS = {
    "alloc": journal.ALLOCATION,
    "free_requested": journal.FREE_REQUESTED,
    "free_completed": journal.FREE_COMPLETED,
}
# A trace tells how much was allocated before it began, but not in which pieces.
_UNEXPLAINED_CHUNK_BYTES = 16 << 20


def of_snapshot(snapshot: dict[str, Any]) -> HistoryBuilder:
    """What ``torch.cuda.memory._dump_snapshot`` writes. Of several devices, the one with most entries."""
    traces = [
        _checked_list(trace, "trace of a device") for trace in _checked_list(snapshot["device_traces"], "device_traces")
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
            size = _checked_number(recorded, "size", MAX_SIZE)
            builder.take(
                entry(_KINDS[action], _checked_number(recorded, "addr"), size, _checked_number(recorded, "stream"))
            )
    builder.add_survivors(_survivors(snapshot, device, builder))
    return builder


def _survivors(snapshot: dict[str, Any], device: int, builder: HistoryBuilder) -> Iterable[JournalEntry]:
    for segment in _checked_list(snapshot.get("segments"), "segments"):
        if _checked_number(segment, "device") != device:
            continue
        # Snapshots of before torch 2.1 do not say where a block is; blocks of a segment follow one another.
        address = _checked_number(segment, "address")
        stream = _checked_number(segment, "stream")
        for block in _checked_list(segment.get("blocks"), "list of blocks"):
            size = _checked_number(block, "size", MAX_SIZE)
            address = _checked_number(block, "address") if "address" in block else address
            state = block.get("state")
            if isinstance(state, str) and state.startswith("active") and not builder.is_awaiting(address):
                requested = _checked_number(block, "requested_size", MAX_SIZE) if "requested_size" in block else size
                yield entry(journal.ALLOCATION, address, requested, stream)
            address += size


def of_trace(trace: dict[str, Any]) -> HistoryBuilder:
    """A Kineto (Chrome) trace of a profile with ``profile_memory=True``: its ``[memory]`` instants, with sizes as the
    allocator rounded them, and no streams. Of several devices, the busiest."""
    recorded = sorted(_memory_instants(trace), key=lambda instant: (instant["ts"], instant["args"]["Ev Idx"]))
    devices = collections.Counter(instant["args"].get("Device Id") for instant in recorded)
    device = devices.most_common(1)[0][0] if devices else None
    instants = [instant["args"] for instant in recorded if instant["args"].get("Device Id") == device]
    builder = HistoryBuilder()
    for arguments in instants:
        address, size = _checked_number(arguments, "Addr"), arguments["Bytes"]
        if size:
            kind = journal.ALLOCATION if size > 0 else journal.FREE_COMPLETED
            builder.take(entry(kind, address, abs(size)))
    if instants:
        before = _checked_number(instants[0], "Total Allocated", MAX_SIZE) - instants[0]["Bytes"]
        builder.add_survivors(_chunks(before - builder.initial_bytes))
    return builder


def _memory_instants(trace: dict[str, Any]) -> Iterable[dict[str, Any]]:
    cuda = 1
    for instant in _checked_list(trace["traceEvents"], "traceEvents"):
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


def of_event_list(recording: dict[str, Any], name: str) -> History:
    """A list of events that some program has made up: bench/generators/README.md describes it."""
    version = recording["frugal_alloc_history"]
    if type(version) is not int or version != 1:
        raise Malformed(f"it is of version {shown(version)}, and this frugal_alloc reads version 1")
    rows = _checked_list(recording.get("events"), "events")
    if not rows:
        raise Malformed("it has no event; write it again")
    if len(rows) > MAX_EVENTS:
        raise Malformed(f"it has more than {MAX_EVENTS} events; generate fewer")
    events = _EventList(len(rows))
    for row in rows:
        events.add(row)
    turn_ends = _checked_list(recording.get("turn_ends", []), "turn_ends")
    if turn_ends != sorted({_checked_number({"turn_ends": end}, "turn_ends", len(rows)) for end in turn_ends}):
        raise Malformed("its turn_ends do not ascend")
    warm_up_end = None
    if recording.get("warm_up_end") is not None:
        warm_up_end = _checked_number(recording, "warm_up_end", len(rows))
    return History(
        name=name,
        events=bytes(events.packed),
        initial_count=0,
        allocation_count=len(events.sizes),
        stream_count=events.stream_count,
        warm_up_end=warm_up_end,
        turn_ends=tuple(turn_ends),
        stream_lag=_checked_number(recording, "stream_lag", len(rows)) if "stream_lag" in recording else 0,
    )


class _EventList:
    """Checks and packs events one by one."""

    def __init__(self, event_count: int) -> None:
        self._event_count = event_count
        self._live: set[int] = set()
        # By stream: the event at which it is done with what was freed last.
        self._done_at: dict[int, int] = {}
        self.packed = bytearray()
        self.sizes: list[int] = []
        self.stream_count = 1

    def add(self, row: Any) -> None:
        number = len(self.packed) // EVENT.size
        if not isinstance(row, list) or any(type(value) is not int for value in row):
            raise Malformed(f"event {number} is {shown(row)}, not a list of numbers")
        if len(row) == 4 and row[0] == ALLOCATE:
            self._allocate(number, *row[1:])
        elif len(row) in (2, 4) and row[0] == FREE:
            self._free(number, *row[1:])
        else:
            raise Malformed(f"event {number} is {shown(row)}, neither an allocation nor a free")

    def _allocate(self, number: int, allocation: int, size: int, stream: int) -> None:
        if allocation != len(self.sizes):
            raise Malformed(f"event {number} makes allocation {allocation}, and the next is {len(self.sizes)}")
        if not 0 < size <= MAX_SIZE:
            raise Malformed(f"event {number} has {size} bytes, not 1 to {MAX_SIZE}")
        self._use(number, stream)
        self.sizes.append(size)
        self._live.add(allocation)
        self.packed += EVENT.pack(ALLOCATE, allocation, size, stream, 0, 0)

    def _free(self, number: int, allocation: int, late_stream: int = 0, ready: int | None = None) -> None:
        if allocation not in self._live:
            raise Malformed(f"event {number} frees allocation {allocation}, which is not allocated then")
        self._live.remove(allocation)
        if ready is not None:
            self._use(number, late_stream)
            # What a stream does ends in order, so its work is there until the latest that was said before.
            if not max(number, self._done_at.get(late_stream, 0) - 1) < ready <= self._event_count:
                raise Malformed(
                    f"event {number} is ready at {ready}: that must be after it, at most {self._event_count}, and no "
                    "earlier than what was freed before on that stream"
                )
            self._done_at[late_stream] = ready
        self.packed += EVENT.pack(FREE, allocation, 0, 0, late_stream, ready or 0)

    def _use(self, number: int, stream: int) -> None:
        if not 0 <= stream < MAX_STREAMS:
            raise Malformed(f"event {number} is on stream {stream}, not one of 0 to {MAX_STREAMS - 1}")
        self.stream_count = max(self.stream_count, stream + 1)


def _checked_number(record: Any, key: str, most: int = (1 << 64) - 1) -> int:
    value = record.get(key) if isinstance(record, dict) else None
    if type(value) is not int or not 0 <= value <= most:
        raise Malformed(f"an entry's {key!r} is {shown(value)}, not a number from 0 to {most}; the file is damaged")
    return value


def _checked_list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed(f"its {what} is {type(value).__name__}, not a list; the file is damaged")
    return value

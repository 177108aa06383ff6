"""Reads a list of events that some program has made up: bench/generators/README.md describes it."""

from __future__ import annotations

from typing import Any

from .._common.shapes import shown
from .history import ALLOCATE, EVENT, FREE, MAX_EVENTS, MAX_SIZE, MAX_STREAMS, History, live_bytes
from .recorded_fields import Malformed, checked_list, checked_number


def read(recording: dict[str, Any], name: str) -> History:
    version = recording["frugal_alloc_history"]
    if type(version) is not int or version != 1:
        raise Malformed(f"it is of version {shown(version)}, and this frugal_alloc reads version 1")
    rows = checked_list(recording.get("events"), "events")
    if not rows:
        raise Malformed("it has no event; write it again")
    if len(rows) > MAX_EVENTS:
        raise Malformed(f"it has more than {MAX_EVENTS} events; generate fewer")
    events = _EventList(len(rows))
    for row in rows:
        events.add(row)
    turn_ends = checked_list(recording.get("turn_ends", []), "turn_ends")
    if turn_ends != sorted({checked_number({"turn_ends": end}, "turn_ends", len(rows)) for end in turn_ends}):
        raise Malformed("its turn_ends do not ascend")
    warm_up_end = None
    if recording.get("warm_up_end") is not None:
        warm_up_end = checked_number(recording, "warm_up_end", len(rows))
    packed = bytes(events.packed)
    return History(
        name=name,
        events=packed,
        event_count=len(rows),
        initial_count=0,
        allocation_count=len(events.sizes),
        stream_count=events.stream_count,
        peak_live_bytes=max(live_bytes(packed)),
        warm_up_end=warm_up_end,
        turn_ends=tuple(turn_ends),
        stream_lag=checked_number(recording, "stream_lag", len(rows)) if "stream_lag" in recording else 0,
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

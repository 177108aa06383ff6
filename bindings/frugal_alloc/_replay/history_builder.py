"""Makes a history of allocations and frees that are known by their addresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from .history import ALLOCATE, EVENT, FREE, MAX_EVENTS, MAX_STREAMS, History
from .recorded_fields import Malformed


@dataclasses.dataclass(slots=True)
class BuiltEvent:
    operation: int
    allocation: int
    size: int = 0
    stream: int = 0
    late_stream: int = 0
    # Of a late free: number of the event before which the late stream is done. None: not late.
    ready: int | None = None


# A late stream that is not done before the recording ends.
_AFTER_THE_END = 1 << 62


class HistoryBuilder:
    """Collects allocations and frees by address, in the order of time.

    A free of an unknown address is of memory that was allocated before the recording; so is what is there at the end
    and was not allocated in it.
    """

    def __init__(self) -> None:
        self._events: list[BuiltEvent] = []
        # By address: the allocation there.
        self._live: dict[int, int] = {}
        self._sizes: list[int] = []
        self._streams: dict[int, int] = {0: 0}
        # (address, event): allocated before the recording, to be placed in the order of addresses.
        self._initial: list[tuple[int, BuiltEvent]] = []

    @property
    def initial_bytes(self) -> int:
        return sum(event.size for _, event in self._initial)

    def allocate(self, address: int, size: int, stream: int) -> None:
        if address in self._live:
            # Its free is missing from the recording: it must have been before this.
            self.free(address, size, stream)
        event = self._new_allocation(size, stream)
        self._live[address] = event.allocation
        self._add(event)

    def free(self, address: int, size: int, stream: int) -> BuiltEvent:
        allocation = self._live.pop(address, None)
        if allocation is None:
            allocation = self._add_initial(address, size, stream)
        return self._add(BuiltEvent(FREE, allocation))

    def mark_late(self, free: BuiltEvent, done: bool) -> None:
        """The memory of `free` was in use by some stream up to now; if not `done`, it still is at the end."""
        free.ready = len(self._events) if done else _AFTER_THE_END

    def add_survivors(self, survivors: Iterable[tuple[int, int, int]]) -> None:
        """(address, size, stream) of all that is allocated at the end."""
        for address, size, stream in survivors:
            if address not in self._live:
                self._add_initial(address, size, stream)

    def history(self, name: str) -> History:
        if not self._events:
            raise Malformed(
                "no allocation is recorded in it; call torch.cuda.memory._record_memory_history() before the work, "
                "or profile with profile_memory=True"
            )
        self._assign_late_streams()
        initial = [event for _, event in sorted(self._initial, key=lambda entry: entry[0])]
        events = initial + self._events
        total = len(events)
        for event in self._events:
            if event.ready is not None:
                event.ready = min(event.ready + len(initial), total)
        stream_count = 1 + max(max(event.stream, event.late_stream) for event in events)
        return History(
            name=name,
            events=b"".join(
                EVENT.pack(e.operation, e.allocation, e.size, e.stream, e.late_stream, e.ready or 0) for e in events
            ),
            event_count=total,
            initial_count=len(initial),
            allocation_count=len(self._sizes),
            stream_count=stream_count,
            peak_live_bytes=self._peak_live_bytes(events),
        )

    def _new_allocation(self, size: int, stream: int) -> BuiltEvent:
        # Of an allocation without bytes, the allocator would not hear.
        size = max(size, 1)
        self._sizes.append(size)
        number = self._streams.setdefault(stream, len(self._streams))
        if number >= MAX_STREAMS:
            raise Malformed(f"it uses more than {MAX_STREAMS} streams; that many cannot be replayed")
        return BuiltEvent(ALLOCATE, len(self._sizes) - 1, size, number)

    def _add_initial(self, address: int, size: int, stream: int) -> int:
        event = self._new_allocation(size, stream)
        self._initial.append((address, event))
        return event.allocation

    def _add(self, event: BuiltEvent) -> BuiltEvent:
        if len(self._events) >= MAX_EVENTS:
            raise Malformed(f"it has more than {MAX_EVENTS} events; record fewer (max_entries)")
        self._events.append(event)
        return event

    def _assign_late_streams(self) -> None:
        """Gives each late free a stream that is busy for as long.

        The recording does not name the stream that was late. What one stream does ends in order, so a free goes to the
        busiest stream that is done no later than it must be, or to a new one.
        """
        done_at: dict[int, int] = {}
        for event in self._events:
            if event.ready is None:
                continue
            fitting = [stream for stream, done in done_at.items() if done <= event.ready]
            event.late_stream = max(fitting, key=done_at.__getitem__, default=len(self._streams) + len(done_at))
            done_at[event.late_stream] = event.ready
            if len(done_at) > MAX_STREAMS:
                raise Malformed(f"more than {MAX_STREAMS} streams are late in it; that many cannot be replayed")

    def _peak_live_bytes(self, events: list[BuiltEvent]) -> int:
        live = peak = 0
        late: dict[int, int] = {}
        for index, event in enumerate(events):
            live -= late.pop(index, 0)
            if event.operation == ALLOCATE:
                live += event.size
            elif event.ready is None:
                live -= self._sizes[event.allocation]
            else:
                late[event.ready] = late.get(event.ready, 0) + self._sizes[event.allocation]
            peak = max(peak, live)
        return peak

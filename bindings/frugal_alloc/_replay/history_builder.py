"""Makes a history of what a journal, or a recording read as one, says of one GPU by addresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from .._native import journal
from .._native.journal import JournalEntry
from .history import ALLOCATE, EVENT, FREE, MAX_EVENTS, MAX_STREAMS, History, Malformed, live_bytes
from .timeline import NEVER, Block, Timeline

KINDS = (journal.ALLOCATION, journal.FREE_REQUESTED, journal.FREE_COMPLETED)
_BEFORE = -1


def entry(kind: int, address: int, size: int = 0, stream: int = 0) -> JournalEntry:
    """One of a recording that says no more than this."""
    return JournalEntry(address, size, stream, -1, 0, kind, 0, 0)


@dataclasses.dataclass(slots=True, eq=False)
class _Numbered(Block):
    """Moments are numbers of events."""

    allocation: int = 0
    address: int = 0

    @property
    def is_late(self) -> bool:
        """Whether some stream uses it after its free; one that is done before the next event does not."""
        return self.freed != NEVER and self.died > self.freed + 1


class HistoryBuilder:
    """Collects entries of the kinds above, in the order of time.

    A free of an unknown address is of memory that was allocated before the recording; so is what is there at the end
    and was not allocated in it.
    """

    def __init__(self) -> None:
        self._timeline = Timeline(_Numbered)
        # Each block stands here as it is made and as it is freed.
        self._events: list[_Numbered] = []
        self._initial: list[_Numbered] = []
        self._streams: dict[int, int] = {0: 0}
        self._allocations = 0

    @property
    def initial_bytes(self) -> int:
        return sum(block.bytes for block in self._initial)

    def take(self, entry: JournalEntry) -> None:
        place = entry.gpu, entry.address
        if entry.kind == journal.ALLOCATION and place in self._timeline.live:
            # Its free is missing from the recording: it must have been before this.
            self.take(entry._replace(kind=journal.FREE_COMPLETED))
        elif entry.kind != journal.ALLOCATION and not (
            place in self._timeline.live or place in self._timeline.awaiting
        ):
            self._add_initial(entry)
        number = len(self._events)
        block = self._timeline.take(number, entry)
        if entry.kind == journal.ALLOCATION:
            self._number(block, entry)
        if block is not None and number in (block.born, block.freed):
            if number >= MAX_EVENTS:
                raise Malformed(f"it has more than {MAX_EVENTS} events; record fewer (max_entries)")
            self._events.append(block)

    def add_survivors(self, survivors: Iterable[JournalEntry]) -> None:
        """Allocations of all that is allocated at the end."""
        for survivor in survivors:
            if (survivor.gpu, survivor.address) not in self._timeline.live:
                self._add_initial(survivor)

    def is_awaiting(self, address: int) -> bool:
        """Whether what was there was freed and is in use."""
        return (0, address) in self._timeline.awaiting

    def history(self, name: str) -> History:
        if not self._events:
            raise Malformed(
                "no allocation is recorded in it; call torch.cuda.memory._record_memory_history() before the work, "
                "or profile with profile_memory=True"
            )
        late = self._late_streams()
        initial = sorted(self._initial, key=lambda block: block.address)
        count = len(initial) + len(self._events)

        def packed(number: int, block: _Numbered) -> bytes:
            if number != block.freed:
                return EVENT.pack(ALLOCATE, block.allocation, block.bytes, self._streams[block.stream], 0, 0)
            ready = min(block.died + len(initial), count) if block.is_late else 0
            return EVENT.pack(FREE, block.allocation, 0, 0, late.get(block.allocation, 0), ready)

        events = [packed(_BEFORE, block) for block in initial] + list(map(packed, range(count), self._events))
        used = {self._streams[block.stream] for block in (*initial, *self._events)}
        packed_events = b"".join(events)
        return History(
            name=name,
            events=packed_events,
            event_count=count,
            initial_count=len(initial),
            allocation_count=self._allocations,
            stream_count=1 + max(*used, *late.values(), 0),
            peak_live_bytes=max(live_bytes(packed_events)),
        )

    def _number(self, block: _Numbered, entry: JournalEntry) -> None:
        # Of an allocation without bytes, the allocator would not hear.
        block.bytes = max(block.bytes, 1)
        block.allocation, block.address = self._allocations, entry.address
        self._allocations += 1
        if self._streams.setdefault(block.stream, len(self._streams)) >= MAX_STREAMS:
            raise Malformed(f"it uses more than {MAX_STREAMS} streams; that many cannot be replayed")

    def _add_initial(self, entry: JournalEntry) -> None:
        block = self._timeline.take(_BEFORE, entry._replace(kind=journal.ALLOCATION))
        self._number(block, entry)
        self._initial.append(block)

    def _late_streams(self) -> dict[int, int]:
        """By allocation that is freed late: a stream that is busy for as long.

        The recording does not name the stream that was late. What one stream does ends in order, so a free goes to the
        busiest stream that is done no later than it must be, or to a new one.
        """
        done_at: dict[int, int] = {}
        streams: dict[int, int] = {}
        for number, block in enumerate(self._events):
            if number != block.freed or not block.is_late:
                continue
            fitting = [stream for stream, done in done_at.items() if done <= block.died]
            stream = max(fitting, key=done_at.__getitem__, default=len(self._streams) + len(done_at))
            streams[block.allocation], done_at[stream] = stream, block.died
            if len(done_at) > MAX_STREAMS:
                raise Malformed(f"more than {MAX_STREAMS} streams are late in it; that many cannot be replayed")
        return streams

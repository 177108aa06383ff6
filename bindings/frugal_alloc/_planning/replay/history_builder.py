"""Makes a history of what a journal, or a recording read as one, says of one GPU by addresses."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence

from ..._native import journal
from ..._native.journal import JournalEntry
from ..timeline import NEVER, Block, Timeline
from .history import ALLOCATE, EVENT, FREE, MAX_EVENTS, MAX_STREAMS, History, Malformed

#: The moment at which what was there before the recording was made.
BEFORE = -1


def entry(kind: int, address: int, size: int = 0, stream: int = 0) -> JournalEntry:
    """One of a recording that says no more than this."""
    return JournalEntry(address, size, stream, -1, 0, kind, 0, 0)


class HistoryBuilder:
    """Collects allocations and frees in the order of time.

    A free of an unknown address is of memory that was allocated before the recording; so is what is there at the end
    and was not allocated in it.
    """

    def __init__(self) -> None:
        self._timeline = Timeline(Block)
        self._blocks: list[Block] = []
        self._moment = BEFORE

    @property
    def initial_bytes(self) -> int:
        return sum(block.bytes for block in self._blocks if block.born == BEFORE)

    def take(self, entry: JournalEntry) -> None:
        there = self._timeline.at(entry.gpu, entry.address)
        if entry.kind == journal.ALLOCATION and there is not None and there.freed == NEVER:
            # Its free is missing from the recording: it must have been before this.
            self.take(entry._replace(kind=journal.FREE_COMPLETED))
        elif entry.kind != journal.ALLOCATION and there is None:
            self._make(BEFORE, entry)
        self._moment += 1
        if entry.kind == journal.ALLOCATION:
            self._make(self._moment, entry)
        else:
            self._timeline.take(self._moment, entry)

    def add_survivors(self, survivors: Iterable[JournalEntry]) -> None:
        """Allocations of all that is allocated at the end."""
        for survivor in survivors:
            if (survivor.gpu, survivor.address) not in self._timeline.live:
                self._make(BEFORE, survivor)

    def is_awaiting(self, address: int) -> bool:
        """Whether what was there was freed and is in use."""
        return (0, address) in self._timeline.awaiting

    def history(self, name: str) -> History:
        return packed(name, self._blocks)

    def _make(self, moment: int, entry: JournalEntry) -> None:
        block = self._timeline.take(moment, entry._replace(kind=journal.ALLOCATION))
        if block is not None:
            self._blocks.append(block)


def packed(name: str, blocks: Sequence[Block]) -> History:
    """The history of what was made and freed, each at a moment of its own; what was there BEFORE comes first.

    Raises:
        Malformed: that much cannot be replayed.
    """
    initial = sorted((block for block in blocks if block.born == BEFORE), key=lambda block: block.address)
    events = {moment: block for block in blocks for moment in (block.born, block.freed) if BEFORE < moment < NEVER}
    moments = sorted(events)
    if not moments:
        raise Malformed(
            "no allocation is recorded in it; call torch.cuda.memory._record_memory_history() before the work, "
            "or profile with profile_memory=True"
        )
    if len(moments) > MAX_EVENTS:
        raise Malformed(f"it has more than {MAX_EVENTS} events; record fewer (max_entries)")
    numbers = {block: number for number, block in enumerate(blocks)}
    streams = {0: 0}
    for block in blocks:
        if streams.setdefault(block.stream, len(streams)) >= MAX_STREAMS:
            raise Malformed(f"it uses more than {MAX_STREAMS} streams; that many cannot be replayed")
    # By block that some stream uses after its free: the event before which it is done.
    ready = {}
    for number, moment in enumerate(moments):
        block = events[moment]
        done = NEVER if block.died == NEVER else bisect.bisect_left(moments, block.died)
        if moment == block.freed and done > number + 1:
            ready[block] = done
    late = _late_streams(ready, len(streams))

    def event(moment: int, block: Block) -> bytes:
        if moment == block.born:
            # Of an allocation without bytes, the allocator would not hear.
            return EVENT.pack(ALLOCATE, numbers[block], max(block.bytes, 1), streams[block.stream], 0, 0)
        done = min(ready[block], len(moments)) + len(initial) if block in ready else 0
        return EVENT.pack(FREE, numbers[block], 0, 0, late.get(block, 0), done)

    all_events = [event(BEFORE, block) for block in initial] + [event(moment, events[moment]) for moment in moments]
    used = {streams[block.stream] for block in (*initial, *events.values())}
    return History(
        name=name,
        events=b"".join(all_events),
        initial_count=len(initial),
        allocation_count=len(blocks),
        stream_count=1 + max(0, *used, *late.values()),
    )


def _late_streams(ready: Mapping[Block, int], first: int) -> dict[Block, int]:
    """For blocks that are freed late, in that order: a stream that is busy for as long; none is below the `first`.

    The recording does not name the stream that was late. What one stream does ends in order, so a free goes to the
    busiest stream that is done no later than it must be, or to a new one.
    """
    done_at: dict[int, int] = {}
    streams: dict[Block, int] = {}
    for block, done in ready.items():
        fitting = [stream for stream, busy_until in done_at.items() if busy_until <= done]
        stream = max(fitting, key=done_at.__getitem__, default=first + len(done_at))
        streams[block], done_at[stream] = stream, done
        if len(done_at) > MAX_STREAMS:
            raise Malformed(f"more than {MAX_STREAMS} streams are late in it; that many cannot be replayed")
    return streams

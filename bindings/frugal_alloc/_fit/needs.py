"""The smallest GPU on which what a program asked for can be met, by replaying its requests."""

from __future__ import annotations

from collections.abc import Iterable

from .._common.installation import MissingPart
from .._native import journal
from .._native.journal import JournalEntry
from .._replay import replays
from .._replay.history import History
from .._replay.history_builder import BuiltEvent, HistoryBuilder
from .._replay.recorded_fields import Malformed

_TOLERANCE = 0.002
# Larger than any GPU's memory.
_PLENTY = 1 << 41


def smallest_bytes(entries: Iterable[JournalEntry], gpu: int, allocator: str, context_bytes: int) -> int | None:
    """Bytes of memory of the GPU, of which the context takes `context_bytes`; None: it cannot be said.

    A program that does other things when memory runs out may do with less.
    """
    try:
        measured = replays.Replayer().measure(
            _history(entries, gpu), allocator, _PLENTY, True, passes=1, tolerance=_TOLERANCE
        )
    except (Malformed, replays.ReplayError, MissingPart):
        return None
    return None if measured.min_capacity_bytes is None else measured.min_capacity_bytes + context_bytes


def _history(entries: Iterable[JournalEntry], gpu: int) -> History:
    builder = HistoryBuilder()
    pending: dict[int, tuple[int, BuiltEvent]] = {}
    of_gpu = (entry for entry in entries if entry.gpu == gpu)
    kinds = (journal.ALLOCATION, journal.FREE_REQUESTED, journal.FREE_COMPLETED)
    for number, entry in enumerate(entry for entry in of_gpu if entry.kind in kinds):
        if entry.kind == journal.ALLOCATION:
            builder.allocate(entry.address, entry.bytes, entry.stream)
        elif entry.kind == journal.FREE_REQUESTED:
            pending[entry.address] = number, builder.free(entry.address, entry.bytes, entry.stream)
        elif entry.address in pending:
            requested_at, free = pending.pop(entry.address)
            if requested_at != number - 1:
                builder.mark_late(free, done=True)
    for _, free in pending.values():
        builder.mark_late(free, done=False)
    return builder.history("program")

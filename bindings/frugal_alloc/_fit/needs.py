"""The smallest GPU on which what a program asked for can be met, by replaying its requests."""

from __future__ import annotations

from collections.abc import Iterable

from .._installation import MissingPart
from .._native.journal import JournalEntry
from .._replay import history_builder, replays
from .._replay.recorded_fields import Malformed

_TOLERANCE = 0.002
# Larger than any GPU's memory.
_PLENTY = 1 << 41


def smallest_bytes(entries: Iterable[JournalEntry], gpu: int, allocator: str, context_bytes: int) -> int | None:
    """Bytes of memory of the GPU, of which the context takes `context_bytes`; None: it cannot be said.

    A program that does other things when memory runs out may do with less.
    """
    builder = history_builder.HistoryBuilder()
    try:
        for entry in entries:
            if entry.gpu == gpu and entry.kind in history_builder.KINDS:
                builder.take(entry)
        history = builder.history("program")
        measured = replays.Replayer().measure(history, allocator, _PLENTY, True, passes=1, tolerance=_TOLERANCE)
    except (Malformed, replays.ReplayError, MissingPart):
        return None
    return None if measured.min_capacity_bytes is None else measured.min_capacity_bytes + context_bytes

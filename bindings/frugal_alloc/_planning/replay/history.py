"""An allocation history: the events that a replay plays, and what is known of them."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Iterator

# bindings/replay/history.h has the same layout (its Event): change both or neither.
EVENT = struct.Struct("<IIQIIQ")
ALLOCATE, FREE = 0, 1

# More than any GPU has, and few enough for the sums to stay within 64 bits.
MAX_SIZE = 1 << 50
MAX_STREAMS = 1024
MAX_EVENTS = 1 << 24


class Malformed(Exception):
    """What a recording says cannot be; the message says what."""


@dataclasses.dataclass(frozen=True)
class History:
    """The events of one recording, packed; sizes in bytes."""

    name: str
    events: bytes
    # The first so many events place what was allocated before the recording began.
    initial_count: int
    allocation_count: int
    stream_count: int
    # The event from which on the program's work is steady; None: not known.
    warm_up_end: int | None = None
    # Of a fixed loop, whose iterations all make the same calls: the event at which each of them ends.
    turn_ends: tuple[int, ...] = ()
    # How many events the streams are behind the host when they are replayed with work on them; 0: not known.
    stream_lag: int = 0

    @property
    def event_count(self) -> int:
        return len(self.events) // EVENT.size

    @functools.cached_property
    def peak_live_bytes(self) -> int:
        """Most bytes, as requested, that were allocated or freed but still in use by a stream at a time."""
        return max(live_bytes(self.events), default=0)


def live_bytes(events: bytes) -> Iterator[int]:
    """After each of the packed events: bytes that are allocated, or freed but still in use by a stream."""
    live = 0
    sizes: dict[int, int] = {}
    done: dict[int, int] = {}  # by event: bytes that a late stream is done with then
    for number, (operation, allocation, size, _, _, ready) in enumerate(EVENT.iter_unpack(events)):
        live -= done.pop(number, 0)
        if operation == ALLOCATE:
            sizes[allocation] = size
            live += size
        elif ready:
            done[ready] = done.get(ready, 0) + sizes.get(allocation, 0)
        else:
            live -= sizes.get(allocation, 0)
        yield live

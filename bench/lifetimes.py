"""When each block of a history lives, how large it is, and whose it is."""

from __future__ import annotations

import dataclasses

import numpy as np
from frugal_alloc._replay.history import ALLOCATE, EVENT, FREE, History
from numpy.typing import NDArray

# allocator/port/units.h has the same: kGrain, kPageSize, kHalfPageLimit, kSmallLimit.
GRAIN_BYTES = 512
PAGE_BYTES = 2 << 20
HALF_PAGE_LIMIT = 512 << 10
SMALL_LIMIT = 1 << 20
GRAINS_A_PAGE = PAGE_BYTES // GRAIN_BYTES

Numbers = NDArray[np.int64]

_EVENT = np.dtype(
    [
        ("operation", "<u4"),
        ("allocation", "<u4"),
        ("size", "<u8"),
        ("stream", "<u4"),
        ("late_stream", "<u4"),
        ("ready", "<u8"),
    ]
)


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """Of every allocation, by its number. Block `i` is live from event birth[i] on, up to but without death[i]."""

    event_count: int
    birth: Numbers
    # The number of events: lives to the end.
    death: Numbers
    grains: Numbers
    # One number for each pair of stream and size group.
    arena: Numbers

    def live_grains(self, chosen: NDArray[np.bool_] | None = None) -> Numbers:
        """After each event; of the chosen blocks, or of all."""
        part = slice(None) if chosen is None else chosen
        change = np.zeros(self.event_count + 1, np.int64)
        np.add.at(change, self.birth[part], self.grains[part])
        np.add.at(change, self.death[part], -self.grains[part])
        return np.cumsum(change)[: self.event_count]


def lifetimes(history: History, *, waits: bool = True) -> Lifetimes:
    """`waits`: a block that is freed while a stream still uses it is gone at its free, since the host, or the stream
    that gets the memory, may wait for that stream. Otherwise it lives until that stream is done.
    """
    assert _EVENT.itemsize == EVENT.size
    events = np.frombuffer(history.events, _EVENT)
    births = np.flatnonzero(events["operation"] == ALLOCATE)
    frees = np.flatnonzero(events["operation"] == FREE)
    birth, size, stream = (np.zeros(len(births), np.int64) for _ in range(3))
    made = events["allocation"][births]
    birth[made] = births
    size[made] = events["size"][births]
    stream[made] = events["stream"][births]
    death = np.full(len(births), len(events), np.int64)
    ready = events["ready"][frees].astype(np.int64)
    death[events["allocation"][frees]] = frees if waits else np.where(ready > 0, ready, frees)
    return Lifetimes(
        event_count=len(events),
        birth=birth,
        death=death,
        grains=-(-size // GRAIN_BYTES),
        arena=3 * stream + (size > HALF_PAGE_LIMIT) + (size > SMALL_LIMIT),
    )

"""How much of a history's memory is live over time: allocated, or freed but still in use by a stream."""

from __future__ import annotations

import dataclasses

from .history import ALLOCATE, EVENT, History


@dataclasses.dataclass(frozen=True)
class LiveMemory:
    # The first event at which most was live.
    peak_at: int
    peak_bytes: int
    # (event, most live bytes from there up to the next sample).
    samples: list[tuple[int, int]]


def sample(history: History, samples: int) -> LiveMemory:
    """At most one sample for each event."""
    samples = min(samples, history.event_count)
    most = [0] * samples
    live = peak = peak_at = 0
    sizes: dict[int, int] = {}
    late: dict[int, int] = {}
    for event, fields in enumerate(EVENT.iter_unpack(history.events)):
        operation, allocation, size, _, _, ready = fields
        live -= late.pop(event, 0)
        if operation == ALLOCATE:
            sizes[allocation] = size
            live += size
        elif ready:
            late[ready] = late.get(ready, 0) + sizes.get(allocation, 0)
        else:
            live -= sizes.get(allocation, 0)
        if live > peak:
            peak, peak_at = live, event
        if samples:
            number = event * samples // history.event_count
            most[number] = max(most[number], live)
    starts = [-(-number * history.event_count // samples) for number in range(samples)]
    return LiveMemory(peak_at, peak, list(zip(starts, most, strict=True)))

"""The least memory in which a history could complete, whoever places its blocks.

What the bound is about: *any* placement, also one that knows the whole history before it begins.

- A block lies at a multiple of 512 bytes (what PyTorch's kernels may count on) and never moves while it lives.
- Physical memory is pages of 2 MiB. A page that holds a byte of a live block is held, and stays where it is.
- A page without one may be mapped anywhere else at once, for nothing. Addresses are without end.
- Memory may be handed from one stream to another as soon as it is freed: somebody waits.

Proof. Two blocks that live at the same time share no byte, and since both begin at multiples of 512 bytes, no 512
bytes. So each has ceil(size / 512) such grains to itself. A page has 4,096 grains, and no grain is in two pages:
whoever holds all blocks that live at a time holds at least ceil(grains / 4,096) pages, and this at every time.

More cannot be had from looking at any two moments. Let S live at both, A at the first alone, B at the second alone.
Put S at the start of a page, A right behind it, and when A is gone, B in its place: both moments hold as few pages as
the proof says. Of three moments each holds one page more at most: put what lives at the first two, at all three and at
the last two side by side in this order, what is of the first or the second alone to the left of all this, and what is
of the third alone to the right. Each moment is one run without a gap then. So a better bound has to weigh many moments
together. How much it could gain at most, bench/README.md says by placements that were constructed once.
"""

from __future__ import annotations

import numpy as np
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, FREE, History

# allocator/port/units.h has the same: kGrain, kPageSize.
GRAIN_BYTES = 512
PAGE_BYTES = 2 << 20
GRAINS_A_PAGE = PAGE_BYTES // GRAIN_BYTES

_FIELDS = ("operation", "allocation", "size", "stream", "late_stream", "ready")
_EVENT = np.dtype([(name, "<u8" if name in ("size", "ready") else "<u4") for name in _FIELDS])


def lower_bound_bytes(history: History) -> int:
    """No placement completes the history in less; whole pages."""
    assert _EVENT.itemsize == EVENT.size
    events = np.frombuffer(history.events, _EVENT)
    births = np.flatnonzero(events["operation"] == ALLOCATE)
    frees = np.flatnonzero(events["operation"] == FREE)
    grains = np.zeros(len(births), np.int64)
    grains[events["allocation"][births]] = -(-events["size"][births].astype(np.int64) // GRAIN_BYTES)
    change = np.zeros(len(events), np.int64)
    change[births] = grains[events["allocation"][births]]
    change[frees] = -grains[events["allocation"][frees]]
    return -(-int(np.cumsum(change).max(initial=0)) // GRAINS_A_PAGE) * PAGE_BYTES

"""``python -m bench.offline_bound``: the least memory in which a history could complete, whoever places its blocks.

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
together. How much it could gain at most, docs/performance.md says by placements that were constructed once.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
from frugal_alloc._common.arguments import Parser, refuse
from frugal_alloc._replay import history_files
from frugal_alloc._replay.history import ALLOCATE, EVENT, FREE, History

from . import suite

# allocator/port/units.h has the same: kGrain, kPageSize, kHalfPageLimit, kSmallLimit.
GRAIN_BYTES = 512
PAGE_BYTES = 2 << 20
HALF_PAGE_LIMIT = 512 << 10
SMALL_LIMIT = 1 << 20
GRAINS_A_PAGE = PAGE_BYTES // GRAIN_BYTES

_FIELDS = ("operation", "allocation", "size", "stream", "late_stream", "ready")
_EVENT = np.dtype([(name, "<u8" if name in ("size", "ready") else "<u4") for name in _FIELDS])


def lower_bound_bytes(history: History, *, waits: bool = True, arenas: bool = False) -> int:
    """No placement completes the history in less; whole pages.

    Args:
        waits: False: of placements in which nobody waits for a stream, so that memory that was freed while a stream
               still used it serves nobody until that stream is done.
        arenas: of placements in which blocks of two streams, or small and large ones, never have a page together, as
                in ours: the bound holds for each kind alone, so at each time their pages add up.
    """
    assert _EVENT.itemsize == EVENT.size
    events = np.frombuffer(history.events, _EVENT)
    births = np.flatnonzero(events["operation"] == ALLOCATE)
    frees = np.flatnonzero(events["operation"] == FREE)
    # Of every allocation, by its number: the event with which it is live, and the first at which it is not.
    birth, death = np.zeros(len(births), np.int64), np.full(len(births), len(events), np.int64)
    birth[events["allocation"][births]] = births
    ready = events["ready"][frees].astype(np.int64)
    death[events["allocation"][frees]] = frees if waits else np.where(ready > 0, ready, frees)
    size = events["size"][birth].astype(np.int64)
    grains = -(-size // GRAIN_BYTES)
    arena = 3 * events["stream"][birth].astype(np.int64) + (size > HALF_PAGE_LIMIT) + (size > SMALL_LIMIT)
    held = np.zeros(len(events) + 1, np.int64)
    for part in (arena == number for number in np.unique(arena)) if arenas else [slice(None)]:
        change = np.zeros(len(events) + 1, np.int64)
        np.add.at(change, birth[part], grains[part])
        np.add.at(change, death[part], -grains[part])
        held += -(-np.cumsum(change) // GRAINS_A_PAGE)
    return int(held.max(initial=0)) * PAGE_BYTES


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bytes; see lower_bound_bytes()."""

    name: str
    peak_live: int
    any_placement: int
    no_waits: int
    own_arenas: int


def bounds(history: History) -> Bounds:
    return Bounds(
        name=history.name,
        peak_live=history.peak_live_bytes,
        any_placement=lower_bound_bytes(history),
        no_waits=lower_bound_bytes(history, waits=False),
        own_arenas=lower_bound_bytes(history, arenas=True),
    )


def load(chosen: list[str]) -> list[History]:
    """By name, or by the path of a recording; without any, all that the project has.

    Raises:
        HistoryError
    """
    known = suite.names()
    return [
        suite.load([name])[0].history if name in known else history_files.read(history_files.find(name))
        for name in chosen or known
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = Parser("offline_bound", description=__doc__.split("\n")[0])
    parser.add_argument("histories", nargs="*", metavar="HISTORY", help="names or files; default all of the project's")
    options = parser.parse_args(arguments)
    try:
        histories = load(options.histories)
    except history_files.HistoryError as error:
        return refuse(parser.prog, error)
    print("history                        live GiB  any placement  without waits  own arenas   (÷ live)")
    for history in histories:
        found = bounds(history)
        row = [found.any_placement, found.no_waits, found.own_arenas]
        ratios = "  ".join(f"{size / found.peak_live:11.5f}" for size in row)
        print(f"{found.name:30}  {found.peak_live / (1 << 30):7.2f}  {ratios}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

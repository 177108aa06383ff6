"""What an allocator was asked, in order: which blocks are live then, and how much memory it holds.

A block is live until its free is requested. It may be in use until that is completed: another stream may not be done.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from typing import Generic, TypeVar

from .._native import journal
from .._native.journal import JournalEntry

#: The moment of what never happens.
NEVER = 1 << 62


@dataclasses.dataclass(slots=True, eq=False)
class Block:
    """Memory that was handed out. Moments are numbers that whoever follows the journal gives its entries."""

    gpu: int
    address: int
    bytes: int
    stream: int
    site: int
    born: int
    freed: int = NEVER  # its free was requested
    died: int = NEVER  # its free was completed


def bytes_by_site(blocks: Iterable[Block]) -> collections.Counter[int]:
    sizes: collections.Counter[int] = collections.Counter()
    for block in blocks:
        sizes[block.site] += block.bytes
    return sizes


SomeBlock = TypeVar("SomeBlock", bound=Block)


class Timeline(Generic[SomeBlock]):
    """Follows the entries of a journal. Its blocks are of a type that may say more of them."""

    def __init__(self, block: type[SomeBlock]) -> None:
        self._block = block
        #: By GPU and address: what is live, and what was freed but is in use.
        self.live: dict[tuple[int, int], SomeBlock] = {}
        self.awaiting: dict[tuple[int, int], SomeBlock] = {}
        #: By GPU: bytes of the segments that the allocator holds.
        self.held: collections.Counter[int] = collections.Counter()

    def take(self, moment: int, entry: JournalEntry) -> SomeBlock | None:
        """The block that the entry makes or frees; None: it does neither, or it frees what was there before."""
        place = entry.gpu, entry.address
        if entry.kind == journal.ALLOCATION:
            block = self.live[place] = self._block(*place, entry.bytes, entry.stream, entry.site, moment)
            return block
        if entry.kind == journal.FREE_REQUESTED:
            if (freed := self.live.pop(place, None)) is not None:
                freed.freed = moment
                self.awaiting[place] = freed
            return freed
        if entry.kind == journal.FREE_COMPLETED:
            # Of some frees there is the completion alone.
            if (dead := self.awaiting.pop(place, None) or self.live.pop(place, None)) is not None:
                dead.freed, dead.died = min(dead.freed, moment), moment
            return dead
        if entry.kind == journal.SEGMENT_TAKEN:
            self.held[entry.gpu] += entry.bytes
        elif entry.kind == journal.SEGMENT_GIVEN:
            self.held[entry.gpu] -= entry.bytes
        return None

    def at(self, gpu: int, address: int) -> SomeBlock | None:
        """What is live there, or in use after its free."""
        return self.live.get((gpu, address)) or self.awaiting.get((gpu, address))

    def forget(self, entry: JournalEntry) -> None:
        """Without a change of it, the block that lies where this entry's does."""
        place = entry.gpu, entry.address
        if self.awaiting.pop(place, None) is None:
            self.live.pop(place, None)

"""The library's journal of what PyTorch's allocator does, whichever it is; see bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from .sites import SiteFunctions

#: One entry, of a file that :meth:`JournalFunctions.journal_write` has written.
JOURNAL_ENTRY = struct.Struct("<QqQqibBh")

ALLOCATION, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_TAKEN, SEGMENT_GIVEN, OUT_OF_MEMORY, MARK, LABEL = range(8)
#: Bits of an allocation's flags: its thread records for a backward pass, and is in a call of a module.
WITH_GRADIENTS, IN_MODULE = 1, 2


class JournalEntry(NamedTuple):
    """What happened, in the order of a file's fields."""

    address: int  # of an out-of-memory error: bytes that the GPU has free
    bytes: int  # of a block, those that were asked for
    stream: int
    gpu_used: int  # bytes of the GPU in use, the driver's context apart; -1: the GPU is not simulated
    site: int  # that asks for a block or a segment; of marks and labels number of a text
    kind: int  # one of the names above
    flags: int
    gpu: int  # -1 of marks and labels


def entries_in(data: bytes) -> Iterator[JournalEntry]:
    """Those of a file; one that was cut off is left out."""
    whole = len(data) // JOURNAL_ENTRY.size * JOURNAL_ENTRY.size
    return map(JournalEntry._make, JOURNAL_ENTRY.iter_unpack(data[:whole]))


_AWAITS_CUDA = 2
_READ_AT_ONCE = 1 << 16


class JournalFunctions(SiteFunctions):
    """What happens to memory, one event after another."""

    def journal_start(self) -> bool:
        """From now on, also before CUDA has started, which this does not do. False: it was on."""
        # Sites have lines whether or not the allocator is switched on.
        self.read_python()
        started = self._check(self._library.frugal_journal_start())
        if started == _AWAITS_CUDA:
            import torch

            torch.cuda._lazy_call(lambda: self._check(self._library.frugal_journal_start()))
        return started != 0

    def journal_read(self, first: int = 0) -> Iterator[JournalEntry]:
        """The entries from number `first` on."""
        buffer = ctypes.create_string_buffer(_READ_AT_ONCE * JOURNAL_ENTRY.size)
        while count := self._library.frugal_journal_read(first, buffer, _READ_AT_ONCE):
            yield from entries_in(buffer.raw[: count * JOURNAL_ENTRY.size])
            first += count

    def journal_sites(self) -> set[int]:
        """Numbers of the sites that asked for blocks."""
        return {entry.site for entry in self.journal_read() if entry.kind == ALLOCATION}

    def journal_write(self, path: str | os.PathLike[str]) -> None:
        """Every entry as :data:`JOURNAL_ENTRY`, and nothing else."""
        self._check(self._library.frugal_journal_write(os.fsencode(path)))

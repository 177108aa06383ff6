"""Journals made up by hand, for tests of what is read out of them."""

from __future__ import annotations

from frugal_alloc._native import journal
from frugal_alloc._native.journal import JournalEntry
from frugal_alloc._planning.fit import breakdown, recording
from frugal_alloc._planning.fit.changes import Traits
from frugal_alloc._planning.fit.process_record import Place
from frugal_alloc._planning.fit.recording import Recording
from frugal_alloc._planning.fit.verdict import RankPeaks

USERS, DISTRIBUTED = 1, 2
PLACES = {
    USERS: Place(("train.py", 7, "step"), (), "", 0),
    DISTRIBUTED: Place(None, ("distributed",), "", 0),
}
NONE = Traits()


class MadeUpJournal:
    """Collects entries of one GPU, as a program would make them."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.texts: list[str] = []
        self._used = 0

    def mark(self, *texts: str) -> None:
        for text in texts:
            self._add(journal.MARK, site=self._text(text), gpu=-1, used=-1)

    def label(self, address: int, text: str) -> None:
        self._add(journal.LABEL, address=address, site=self._text(text), gpu=-1, used=-1)

    def take(self, size: int) -> None:
        self._used += size
        self._add(journal.SEGMENT_TAKEN, size=size)

    def allocate(self, address: int, size: int, *, site: int = USERS, in_module: bool = False, gradients: bool = True):
        flags = journal.IN_MODULE * in_module | journal.WITH_GRADIENTS * gradients
        self._add(journal.ALLOCATION, address=address, size=size, site=site, flags=flags)

    def free(self, address: int) -> None:
        self._add(journal.FREE_REQUESTED, address=address)
        self._add(journal.FREE_COMPLETED, address=address)

    def run_out(self) -> None:
        self._add(journal.OUT_OF_MEMORY)

    def recording(
        self, most_calls: int | None = None, places: dict[int, Place] = PLACES, *, trains: bool = True
    ) -> Recording:
        return recording.record(self.entries, 0, self.texts, places, most_calls, trains)

    def peaks(self, places: dict[int, Place] = PLACES, traits: Traits = NONE) -> RankPeaks | None:
        return breakdown.peaks(self.recording(places=places), places, rank=0, gpu=0, counted=None, traits=traits)

    def _text(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)

    def _add(
        self,
        kind: int,
        *,
        address: int = 0,
        size: int = 0,
        site: int = 0,
        flags: int = 0,
        gpu: int = 0,
        used: int | None = None,
    ) -> None:
        self.entries.append(
            JournalEntry(address, size, 0, self._used if used is None else used, site, kind, flags, gpu)
        )


def components(recording: Recording) -> list[str]:
    return [allocation.component for allocation in recording.allocations]


def phases(recording: Recording) -> list[str]:
    """Without repetitions."""
    found: list[str] = []
    for stretch in recording.stretches:
        if not found or found[-1] != stretch.phase:
            found.append(stretch.phase)
    return found

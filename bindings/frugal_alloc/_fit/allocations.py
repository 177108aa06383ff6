"""The allocations of one GPU that a journal tells of: when each was made and freed, in which phase, and what it is for.

Moments are numbers of entries of the journal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from .._native import journal
from .._native.journal import JournalEntry
from . import marks, places
from .components import LabelsOf, component_of
from .phases import PhaseTracker, Stretch, stretch_at
from .places import Place

#: The moment of what is never freed.
NEVER = 1 << 62


@dataclasses.dataclass(slots=True)
class Allocation:
    bytes: int
    site: int
    born: int
    phase: int  # number of a stretch of Recording.stretches
    died: int = NEVER  # its free was completed
    component: str = ""


@dataclasses.dataclass(frozen=True)
class Use:
    """What the GPU had in use after an entry."""

    at: int
    used_bytes: int
    reserved_bytes: int


@dataclasses.dataclass(frozen=True)
class Recording:
    allocations: tuple[Allocation, ...]
    stretches: tuple[Stretch, ...]
    uses: tuple[Use, ...]
    end: int
    out_of_memory: int  # how often

    def largest_passing(self, component: str) -> int:
        """Bytes of the largest allocation of a component that was freed; 0: none was."""
        return max(
            (one.bytes for one in self.allocations if one.component == component and one.died != NEVER), default=0
        )


def record(
    entries: Iterable[JournalEntry],
    gpu: int,
    texts: tuple[str, ...],
    sites: Mapping[int, Place],
    most_calls: int | None = None,
) -> Recording:
    """Args:
    most_calls: what comes after so many calls of the model is left out, in a program without steps.
    """
    reader = _Reader(gpu, texts, sites, most_calls)
    numbered = enumerate(entries)
    for number, entry in numbered:
        if not reader.take(number, entry):
            break
    for _, entry in numbered:
        reader.take_label(entry)
    return reader.finish()


class _Reader:
    def __init__(self, gpu: int, texts: tuple[str, ...], sites: Mapping[int, Place], most_calls: int | None) -> None:
        self._gpu = gpu
        self._texts = texts
        self._sites = sites
        self._most_calls = most_calls
        self._phases = PhaseTracker()
        self._live: dict[int, int] = {}
        self._allocations: list[Allocation] = []
        self._labels: dict[int, LabelsOf] = {}
        self._uses: list[Use] = []
        self._reserved = 0
        self._out_of_memory = 0
        self._end = 0

    def take(self, number: int, entry: JournalEntry) -> bool:
        """False: enough."""
        self._end = number
        if entry.kind == journal.MARK:
            text = self._texts[entry.site]
            self._phases.mark(number, text)
            return text != marks.END
        if entry.kind == journal.LABEL:
            self._label(entry.address, self._texts[entry.site])
        elif entry.gpu == self._gpu:
            if entry.kind == journal.ALLOCATION:
                self._allocate(number, entry)
            self._change(number, entry)
        return self._most_calls is None or self._phases.calls <= self._most_calls

    def take_label(self, entry: JournalEntry) -> None:
        """After the end: what is labelled then may have been there before."""
        if entry.kind == journal.LABEL:
            self._label(entry.address, self._texts[entry.site])
        elif entry.gpu == self._gpu and entry.kind in (journal.ALLOCATION, journal.FREE_COMPLETED):
            self._live.pop(entry.address, None)

    def finish(self) -> Recording:
        stretches = self._phases.stretches()
        for number, allocation in enumerate(self._allocations):
            labels = self._labels.get(number, frozenset())
            # What is never freed outlives them all.
            last = len(stretches) if allocation.died == NEVER else stretch_at(stretches, allocation.died)
            allocation.component = component_of(
                labels, self._sites.get(allocation.site), allocation.phase, last, stretches
            )
        return Recording(tuple(self._allocations), tuple(stretches), tuple(self._uses), self._end, self._out_of_memory)

    def _allocate(self, number: int, entry: JournalEntry) -> None:
        place = self._sites.get(entry.site)
        # What a sharded module gathers before its own forward pass begins is no evaluation.
        for_others = place is not None and places.DISTRIBUTED in place.traits
        in_module = bool(entry.flags & journal.IN_MODULE) and not for_others
        stretch = self._phases.allocation(number, in_module, bool(entry.flags & journal.WITH_GRADIENTS))
        self._live[entry.address] = len(self._allocations)
        self._allocations.append(Allocation(entry.bytes, entry.site, number, stretch))

    def _change(self, number: int, entry: JournalEntry) -> None:
        if entry.kind == journal.FREE_COMPLETED:
            freed = self._live.pop(entry.address, None)
            if freed is not None:
                self._allocations[freed].died = number
        elif entry.kind == journal.SEGMENT_TAKEN:
            self._reserved += entry.bytes
        elif entry.kind == journal.SEGMENT_GIVEN:
            self._reserved -= entry.bytes
        elif entry.kind == journal.OUT_OF_MEMORY:
            self._out_of_memory += 1
        # PyTorch's allocators say that they give a segment back before they do.
        if entry.gpu_used >= 0 and entry.kind != journal.SEGMENT_GIVEN:
            self._uses.append(Use(number, entry.gpu_used, self._reserved))

    def _label(self, address: int, text: str) -> None:
        number = self._live.get(address)
        if number is not None:
            self._labels[number] = self._labels.get(number, frozenset()) | {text}

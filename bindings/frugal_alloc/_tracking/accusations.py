"""What seems to leak at a line, before it is known who holds it: the library's findings, borne out, and cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .._native import Library
from .._sites import Finding, Site
from .cycles import CycleMemory
from .places import place_of
from .suppressions import Place

if TYPE_CHECKING:
    from .tracker import Tracker

Line = tuple[int, "Place | None", str]


class Accusation(NamedTuple):
    """One line of the user's, or the backward of one."""

    kind: str
    gpu: int
    site: Site
    place: Place | None
    bytes: int
    blocks: int
    bytes_per_epoch: float
    bytes_per_step: float | None
    epochs: int
    confidence: float
    extents: list[tuple[int, int]]  # what is in use of it now, as (address, bytes)

    @property
    def line(self) -> Line:
        """The same for what is found there again."""
        return self.gpu, self.place, self.site.node


def find(library: Library, tracker: Tracker) -> list[Accusation]:
    """All as of the latest end of an epoch: cycles, then the findings in the library's order."""
    cycles = tracker.cycles.found()
    findings = library.findings()
    if not findings and not cycles:
        return []
    sites_at = _sites_at(library)
    blocks = _blocks(library)
    found = [_of_cycle(library, cycle, tracker) for cycle in cycles]
    of_cycles = {(one.gpu, one.place) for one in found}
    for finding in findings:
        site = library.site(finding.site)
        place = place_of(library, site)
        sites = sites_at.get((finding.gpu, place, site.node), {finding.site})
        alive = [block for number in sites for block in blocks.get((finding.gpu, number), [])]
        births = {epoch for _, _, epoch in alive if epoch >= 0}
        if (finding.gpu, place) in of_cycles or not tracker.epochs.judges(finding, births, sites):
            continue
        extents = [(address, size) for address, size, _ in alive]
        found.append(_of_finding(finding, site, place, tracker, extents))
    return found


def _of_finding(
    finding: Finding, site: Site, place: Place | None, tracker: Tracker, extents: list[tuple[int, int]]
) -> Accusation:
    per_epoch, per_step = _per_program_epoch(finding.bytes_per_epoch, tracker)
    return Accusation(
        finding.kind,
        finding.gpu,
        site,
        place,
        finding.bytes,
        finding.blocks,
        per_epoch,
        per_step,
        finding.epochs,
        finding.confidence,
        extents,
    )


def _of_cycle(library: Library, cycle: CycleMemory, tracker: Tracker) -> Accusation:
    site = library.site(cycle.site)
    per_epoch, per_step = _per_program_epoch(float(cycle.bytes), tracker)
    return Accusation(
        "cycle",
        cycle.gpu,
        site,
        place_of(library, site),
        cycle.bytes,
        cycle.blocks,
        per_epoch,
        per_step,
        cycle.times,
        1.0,
        [],
    )


def _per_program_epoch(rate: float, tracker: Tracker) -> tuple[float, float | None]:
    """Bytes per epoch of the program, and per step, from bytes per epoch of the library."""
    steps = tracker.epochs.steps_per_judged_epoch
    per_step = rate / steps if steps else None
    per_epoch = tracker.epochs.steps_per_epoch
    return (per_step * per_epoch if per_step is not None and per_epoch else rate), per_step


def _sites_at(library: Library) -> dict[Line, set[int]]:
    """The sites of each line of the user's, backward's of each node apart, which is how findings are grouped."""
    found: dict[Line, set[int]] = {}
    for usage in library.site_usages():
        site = library.site(usage.site)
        found.setdefault((usage.gpu, place_of(library, site), site.node), set()).add(usage.site)
    return found


def _blocks(library: Library) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """Address, bytes and epoch of birth of the blocks that are in use, by GPU and site."""
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for segment in library.segments():
        for block in segment.blocks:
            if block.state == "allocated" and block.site:
                blocks = found.setdefault((segment.gpu, block.site), [])
                blocks.append((block.address, block.bytes, block.epoch))
    return found

"""What seems to leak at a line, before it is known who holds it: the library's findings, borne out, and cycles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .._common.trend import Held
from .._native import Library
from .._native.epochs import Finding
from .._native.sites import Site
from .._program.code_lines import CodeLine
from .cycles import CycleMemory
from .growth import RISING_ENDS, Growing
from .users_lines import told_at

if TYPE_CHECKING:
    from .cycles import Cycles
    from .epochs import Epochs

# That the library leaves out of its judgement, too.
WARM_UP_EPOCHS = 2

Line = tuple[int, "CodeLine | None", str]


class Accusation(NamedTuple):
    """One line of the user's, or the backward of one."""

    kind: str
    gpu: int
    site: Site
    code_line: CodeLine | None
    bytes: int
    blocks: int
    bytes_per_epoch: float
    bytes_per_step: float | None
    epochs: int
    confidence: float
    extents: list[tuple[int, int, int]]  # what is in use of it now, as (address, bytes, epoch of birth)

    @property
    def line(self) -> Line:
        """The same for what is found there again."""
        return self.gpu, self.code_line, self.site.node


def find(library: Library, cycles: Cycles, epochs: Epochs) -> list[Accusation]:
    """All as of the latest end of an epoch: cycles, then the findings in the library's order."""
    in_cycles = cycles.found()
    findings = library.findings()
    growing = epochs.growing()
    if not findings and not in_cycles and not growing:
        return []
    alive = _Alive(library)
    accused = [_of_cycle(library, cycle, epochs) for cycle in in_cycles]
    for finding in findings:
        site = library.site(finding.site)
        line = finding.gpu, told_at(library, site), site.node
        sites = alive.sites_at.get(line, {finding.site})
        blocks = alive.blocks_of(finding.gpu, sites)
        # What is replaced by something larger is always of the current epoch.
        births = {birth for _, _, birth in blocks if birth >= 0} if finding.kind != "growing" else set()
        if epochs.bears_out(finding.gpu, sites, births):
            accused.append(_of_finding(library, finding, epochs, blocks))
    accused += [_of_growing(library, growth, epochs, alive) for growth in growing]
    # Each line once, for the first reason.
    return list({accusation.line: accusation for accusation in reversed(accused)}.values())[::-1]


def _later(blocks: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Without what the first epochs made at the same line, which is another matter: parameters, an optimizer's state, a
    library's workspace."""
    return [block for block in blocks if block[2] < 0 or block[2] >= WARM_UP_EPOCHS] or blocks


class _Alive:
    """What is in use now, by line and site."""

    def __init__(self, library: Library) -> None:
        #: The sites of each line of the user's, backward's of each node apart, which is how findings are grouped.
        self.sites_at: dict[Line, set[int]] = {}
        for usage in library.site_usages():
            site = library.site(usage.site)
            self.sites_at.setdefault((usage.gpu, told_at(library, site), site.node), set()).add(usage.site)
        self._blocks: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for segment in library.segments():
            for block in segment.blocks:
                if block.state == "allocated" and block.site:
                    blocks = self._blocks.setdefault((segment.gpu, block.site), [])
                    blocks.append((block.address, block.bytes, block.epoch))

    def blocks_of(self, gpu: int, sites: set[int]) -> list[tuple[int, int, int]]:
        """Address, bytes and epoch of birth of each."""
        return [block for site in sites for block in self._blocks.get((gpu, site), [])]


def _of_finding(library: Library, finding: Finding, epochs: Epochs, blocks: list[tuple[int, int, int]]) -> Accusation:
    held = Held(finding.bytes, finding.blocks)
    rates = _per_program_epoch(finding.bytes_per_epoch, epochs)
    seen = _program_epochs(finding.epochs, epochs), finding.confidence
    return _accusation(library, finding.kind, (finding.gpu, finding.site), held, rates, *seen, _later(blocks))


def _of_growing(library: Library, growing: Growing, epochs: Epochs, alive: _Alive) -> Accusation:
    steps = epochs.steps_per_epoch
    rates = growing.bytes_per_epoch, growing.bytes_per_epoch / steps if steps else None
    blocks = alive.blocks_of(growing.gpu, {growing.site})
    place, seen = (growing.gpu, growing.site), (RISING_ENDS, growing.confidence)
    return _accusation(library, "growing", place, growing.held, rates, *seen, _later(blocks))


def _of_cycle(library: Library, cycle: CycleMemory, epochs: Epochs) -> Accusation:
    rates = _per_program_epoch(float(cycle.bytes), epochs)
    held = Held(cycle.bytes, cycle.blocks)
    return _accusation(library, "cycle", (cycle.gpu, cycle.site), held, rates, cycle.times, 1.0, [])


def _accusation(
    library: Library,
    kind: str,
    place: tuple[int, int],
    held: Held,
    rates: tuple[float, float | None],
    epochs: int,
    confidence: float,
    extents: list[tuple[int, int, int]],
) -> Accusation:
    gpu, site = place[0], library.site(place[1])
    return Accusation(kind, gpu, site, told_at(library, site), *held, *rates, epochs, confidence, extents)


def _program_epochs(count: int, epochs: Epochs) -> int:
    """So many of the library's epochs in epochs of the program, at least one."""
    if epochs.window_steps is None or not epochs.steps_per_epoch:
        return count
    return max(1, min(epochs.ended + 1, math.ceil(count * epochs.window_steps / epochs.steps_per_epoch)))


def _per_program_epoch(rate: float, epochs: Epochs) -> tuple[float, float | None]:
    """Bytes per epoch of the program, and per step, from bytes per epoch of the library."""
    steps = epochs.steps_per_judged_epoch
    per_step = rate / steps if steps else None
    per_epoch = epochs.steps_per_epoch
    return (per_step * per_epoch if per_step is not None and per_epoch else rate), per_step

"""What seems to leak at a line: the library's findings, borne out, and cycles; and who was seen holding it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from .._heap import kept_pools
from .._heap.kept_pools import KeptPools
from .._heap.live_tensors import Block
from .._native import Library
from .._native.epochs import Finding
from .._native.sites import Frame, Site, users_line
from .._program.code_lines import CodeLine
from . import declarations, holders, rates
from .holders import Evidence
from .outside import NO_SITE
from .rates import is_less
from .trained import IS_TRAINED, Trained

if TYPE_CHECKING:
    from .cycles import Cycles
    from .declarations import Suppression
    from .epochs import Epochs
    from .outside import Outside

# That the library leaves out of its judgement, too.
WARM_UP_EPOCHS = 2
# For what is new. Searches take tenths of a second each, so there are few in a run.
MOST_SEARCHES = 4
MOST_LINES = 50

NOWHERE = Site(NO_SITE, "", (), "", 0)
#: Of other processes, which have shared it with this one.
OTHERS = "others"
#: Nobody's that is known: neither PyTorch nor we hold it.
OUTSIDE = "outside"

Line = tuple[int, "CodeLine | None", str]


class Accusation(NamedTuple):
    """One line of the user's, or the backward of one. What its finding counts in epochs is in epochs of the program."""

    finding: Finding
    site: Site
    frame: Frame | None  # the user's line
    bytes_per_step: float | None
    extents: list[Block] | None  # what is in use of it now; None: that is not known
    whose: str = ""  # where it is no ordinary memory of ours: as kept_pools names pools, OTHERS or OUTSIDE

    @property
    def kind(self) -> str:
        return self.finding.kind

    @property
    def code_line(self) -> CodeLine | None:
        return _code_line(self.frame, self.site)

    @property
    def line(self) -> Line:
        """The same for what is found there again."""
        gpu, code_line, node = _line(self.finding.gpu, self.frame, self.site)
        # What has no site is told apart from what threads without Python make.
        return gpu, code_line, self.whose if self.site is NOWHERE else node

    def is_silenced(self, suppressions: list[Suppression]) -> bool:
        """Whether the program expects it, or the user's file leaves it out."""
        return declarations.is_silenced(self.kind, self.code_line, suppressions)

    @property
    def bytes_now(self) -> int | None:
        return None if self.extents is None else sum(size for _, size, _ in self.extents)


def _code_line(frame: Frame | None, site: Site) -> CodeLine | None:
    """The line and the phase of a site whose line is `frame`; None where neither is known."""
    if frame is None:
        return CodeLine("", 0, "", site.phase) if site.phase else None
    return CodeLine(*frame, site.phase)


def _line(gpu: int, frame: Frame | None, site: Site) -> Line:
    return gpu, _code_line(frame, site), site.node


def find(library: Library, cycles: Cycles, epochs: Epochs, outside: Outside) -> list[Accusation]:
    """All as of the latest end of an epoch: cycles, then the findings in the library's order, then what private pools
    keep, what was received from other processes, and what others have of a GPU."""
    in_cycles, findings, growing = cycles.found(), library.findings(), epochs.growing()
    by_line: dict[Line, Accusation] = {}
    if findings or in_cycles or growing:
        # Each line once, for the first reason.
        for accusation in (*_of_cycles(library, in_cycles, epochs), *_borne_out(library, findings, growing, epochs)):
            by_line.setdefault(accusation.line, accusation)
    for accusation in (*_of_pools(library, outside, epochs), *_received(library, outside, epochs)):
        before = by_line.setdefault(accusation.line, accusation)
        if before is not accusation and before.kind != "cycle":
            by_line[accusation.line] = _together(before, accusation)
    found = outside.found(epochs.steps_per_epoch or 1.0)
    return [*by_line.values(), *(_of_gpu(library, finding, None, epochs, OUTSIDE) for finding in found)]


def _of_gpu(library: Library, finding: Finding, extents: list[Block] | None, epochs: Epochs, whose: str) -> Accusation:
    """Of a finding whose epochs are the program's already, as those of what grows on a GPU are."""
    per_step = finding.bytes_per_epoch / (epochs.steps_per_epoch or 1.0) if epochs.steps else None
    return _accusation(library, finding, per_step, extents)._replace(whose=whose)


def _of_pools(library: Library, outside: Outside, epochs: Epochs) -> Iterator[Accusation]:
    """What is free in private pools, which no line has."""
    for finding in outside.found_in_pools(epochs.steps_per_epoch or 1.0):
        grown = outside.grown_pools(finding.gpu)
        now = {pool.id: pool for pool in library.private_pools()}
        kinds = kept_pools.kinds([now.get(pool.id, pool._replace(holders=0)) for pool, _ in grown])
        by_kind: Counter[str] = Counter()
        for pool, size in grown:
            by_kind[kinds[pool.id]] += size
        most = max(by_kind, key=by_kind.__getitem__)
        extents = None if most == kept_pools.LOST else kept_pools.shares({pool.id: size for pool, size in grown})
        yield _of_gpu(library, finding, extents, epochs, most)


def _received(library: Library, outside: Outside, epochs: Epochs) -> Iterator[Accusation]:
    """What other processes have shared with this one, at the line that has received most of it."""
    for finding in outside.found_received(epochs.steps_per_epoch or 1.0):
        kept = outside.newly_received(finding.gpu)
        by_line: Counter[Frame | None] = Counter()
        for one in kept:
            by_line[one.frame] += one.bytes
        frame = max(by_line, key=by_line.__getitem__, default=None)
        extents = [(one.address, one.bytes, -1) for one in kept if not one.storage.expired()]
        yield _of_gpu(library, finding, extents, epochs, OTHERS)._replace(frame=frame)


def _together(first: Accusation, second: Accusation) -> Accusation:
    """What a line makes that captures graphs, and what is free in their pools, are one leak."""
    findings, rates = (first.finding, second.finding), (first.bytes_per_step, second.bytes_per_step)
    finding = first.finding._replace(
        kind="leak",
        bytes=sum(finding.bytes for finding in findings),
        bytes_per_epoch=sum(finding.bytes_per_epoch for finding in findings),
        confidence=max(finding.confidence for finding in findings),
    )
    per_step = None if None in rates else sum(rates)
    extents = None if second.extents is None else [*(first.extents or []), *second.extents]
    return second._replace(finding=finding, bytes_per_step=per_step, extents=extents)


def _of_cycles(library: Library, in_cycles: list[Finding], epochs: Epochs) -> Iterator[Accusation]:
    for finding in in_cycles:
        yield _accusation(library, *rates.per_program_epoch(finding, [], epochs), None)


def _borne_out(
    library: Library, findings: list[Finding], growing: list[Finding], epochs: Epochs
) -> Iterator[Accusation]:
    """The library's findings that the program's epochs do not contradict; then what grows with these alone."""
    alive = _Alive(library)
    for finding in findings:
        site = library.site(finding.site)
        line = _line(finding.gpu, users_line(library, site), site)
        sites = alive.sites_at.get(line, {finding.site})
        blocks = alive.blocks_of(finding.gpu, sites)
        # What is replaced by something larger is always of the current epoch.
        births = {birth for _, _, birth in blocks if birth >= 0} if finding.kind != "growing" else set()
        if epochs.bears_out(finding.gpu, sites, births):
            extents = _later(blocks) if finding.kind == "growing" else _counted(blocks, finding, library.epochs_ended())
            finding = finding if finding.kind == "growing" else rates.of_all(finding, extents)
            finding, per_step = rates.per_program_epoch(finding, extents, epochs)
            if finding.kind != "growing" and is_less(sum(size for _, size, _ in extents), finding.bytes):
                finding, per_step = rates.of_let_go(finding, per_step, epochs.held(finding.gpu, sites))
            yield alive.in_pools(_accusation(library, finding, per_step, extents))
    steps = epochs.steps_per_epoch
    for finding in growing:
        per_step = finding.bytes_per_epoch / steps if steps else None
        extents = _later(alive.blocks_of(finding.gpu, {finding.site}))
        yield alive.in_pools(_accusation(library, finding, per_step, extents))


def _accusation(
    library: Library, finding: Finding, bytes_per_step: float | None, extents: list[Block] | None
) -> Accusation:
    site = library.site(finding.site) if finding.site != NO_SITE else NOWHERE
    return Accusation(finding, site, users_line(library, site), bytes_per_step, extents)


def _later(blocks: list[Block]) -> list[Block]:
    """Without what the first epochs made at the same line, which is another matter: parameters, an optimizer's state, a
    library's workspace."""
    return [block for block in blocks if block[2] < 0 or block[2] >= WARM_UP_EPOCHS] or blocks


def _counted(blocks: list[Block], finding: Finding, ended: int) -> list[Block]:
    """What is left of those that the library has counted when so many epochs had ended: none of the latest or the
    current one, which may still let them go; nor what is of a size that one epoch alone has left, as the workspace of a
    thread that was begun late."""
    counted = [block for block in blocks if block[2] < 0 or WARM_UP_EPOCHS <= block[2] < ended - 1]
    births: dict[int, set[int]] = {}
    for _, size, birth in counted:
        births.setdefault((size - 1).bit_length(), set()).add(birth)
    of_several = [block for block in counted if block[2] < 0 or len(births[(block[1] - 1).bit_length()]) > 1]
    return counted if is_less(sum(size for _, size, _ in of_several), finding.bytes) else of_several


class _Alive:
    """What is in use now, by line and site."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._pools: dict[int, KeptPools] = {}
        #: The sites of each line of the user's, backward's of each node apart, which is how findings are grouped.
        self.sites_at: dict[Line, set[int]] = {}
        for usage in library.site_usages():
            site = library.site(usage.site)
            line = _line(usage.gpu, users_line(library, site), site)
            self.sites_at.setdefault(line, set()).add(usage.site)
        self._blocks: dict[tuple[int, int], list[Block]] = {}
        for segment in library.segments():
            for block in segment.blocks:
                if block.state == "allocated" and block.site:
                    blocks = self._blocks.setdefault((segment.gpu, block.site), [])
                    blocks.append((block.address, block.bytes, block.epoch))

    def blocks_of(self, gpu: int, sites: set[int]) -> list[Block]:
        return [block for site in sites for block in self._blocks.get((gpu, site), [])]

    def in_pools(self, accusation: Accusation) -> Accusation:
        """The same, and whether most of it lies in pools of graphs."""
        gpu, extents = accusation.finding.gpu, accusation.extents or []
        pools = self._pools.setdefault(gpu, KeptPools(self._library, gpu))
        kept = sum(size for address, size, _ in extents if pools.keep_for_graphs(address))
        is_kept = 2 * kept > sum(size for _, size, _ in extents)
        return accusation._replace(whose=kept_pools.GRAPHS) if is_kept else accusation


class Witnesses:
    """Remembers who held a leak, and whether it was trained, since both the holders and the optimizers may be gone by
    the time of the report. Holds names and figures only."""

    def __init__(self, library: Library, trained: Trained) -> None:
        self._library = library
        self._trained = trained
        self._seen: dict[Line, Evidence] = {}
        #: With the bytes that were in use then.
        self._standings: dict[Line, tuple[str, int]] = {}
        self._searches = 0
        self._looks = 0
        self._looks_at_search = 0

    def look(self, cycles: Cycles, epochs: Epochs, outside: Outside, suppressions: list[Suppression]) -> None:
        """Called when an epoch of the library's has ended: looks at leaks that are new, and at all again whenever there
        were twice as many ends, since a buffer that was filled had most at first."""
        self._looks += 1
        is_old = self._looks >= 2 * self._looks_at_search
        if not is_old and self._searches >= MOST_SEARCHES:
            return
        findings = [*self._library.findings(), *epochs.growing(), *outside.found_in_pools(), *outside.found_received()]
        if all(finding.kind == "suspect" for finding in findings):
            return
        accused = [
            accusation
            for accusation in find(self._library, cycles, epochs, outside)[:MOST_LINES]
            if accusation.kind in ("leak", "growing") and not accusation.is_silenced(suppressions)
        ]
        if any(accusation.line not in self._seen or is_old for accusation in accused):
            self._searches += not is_old
            self._looks_at_search = self._looks
            standings = zip(accused, self.standings(accused), strict=True)
            self.of([accusation for accusation, standing in standings if standing != IS_TRAINED])
            for accusation in accused:
                self._seen.setdefault(accusation.line, holders.NOTHING)

    def standings(self, accused: list[Accusation]) -> list[str]:
        """Whether each of the accused is trained, see :meth:`Trained.standings`; of what was let go since, and once no
        optimizer is left, what was so before."""
        blocks = [accusation.extents or [] for accusation in accused]
        is_over = self._trained.is_over()
        for accusation, of_line, standing in zip(accused, blocks, self._trained.standings(blocks), strict=True):
            in_use = sum(size for _, size, _ in of_line)
            before = self._standings.get(accusation.line)
            if before is None or not (is_over or is_less(in_use, before[1])):
                self._standings[accusation.line] = standing, in_use
        return [self._standings[accusation.line][0] for accusation in accused]

    def remembered(self, accused: list[Accusation]) -> list[Evidence]:
        """Who was seen holding each of the accused."""
        return [self._seen.get(accusation.line, holders.NOTHING) for accusation in accused]

    def of(self, accused: list[Accusation]) -> list[Evidence]:
        """Who holds each of the accused now, or where that is not known any more, who held it before."""
        searched = holders.find([accusation.extents or [] for accusation in accused[:MOST_LINES]])
        searched += [holders.NOTHING] * (len(accused) - len(searched))
        for accusation, now in zip(accused, searched, strict=True):
            before = self._seen.get(accusation.line, holders.NOTHING)
            if _says_more(now, before):
                # A model may have ended, with its hooks, before the list that these have filled.
                hooks = now.hooks or (before.hooks if _names(now) == _names(before) else [])
                self._seen[accusation.line] = now._replace(hooks=hooks)
        return self.remembered(accused)


def _says_more(now: Evidence, before: Evidence) -> bool:
    """Whether what is seen now takes the place of what was seen before."""
    if before.is_explained and is_less(now.bytes, before.bytes):
        return False
    if _is_refuted(before, now):
        return True
    # The program's names have ended, and what they held is not collected yet.
    if now.is_nameless and before.is_explained and not before.is_nameless:
        return False
    return now.share >= before.share or now.is_explained


def _is_refuted(before: Evidence, now: Evidence) -> bool:
    """Whether who seemed to hold most among few tensors has hardly more now that there are many, as a bounded deque."""
    return not _names(before).isdisjoint(name.what for name in now.passed_over)


def _names(evidence: Evidence) -> set[str]:
    return {holder.name.what for holder in evidence.holders}

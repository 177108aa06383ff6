"""What is known when memory has run out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _interruptions
from .._common.messages import format_bytes as size
from .._native.sites import Frame
from .._program.code_lines import CodeLine
from .._tracking import users_lines
from . import evaluation, holding_lines, kept, levers, running, variables
from .advice import LEAST_BYTES, Advice
from .holding_lines import HoldingLine
from .ownership import Ownership


class Situation(NamedTuple):
    facts: Any  # _native.out_of_memory.OutOfMemory
    request: CodeLine | None
    holders: list[HoldingLine]
    inner: list[HoldingLine]  # the lines of libraries within the first holder's
    epochs: int
    saved_bytes: int  # by autograd for backward, and held by nothing else
    changes: list[Advice]  # that free memory which is not needed, the most bytes first
    idle: list[Advice]  # about what the running statement does not need
    levers: list[Advice]  # that make the step smaller
    pinning: Advice | None  # about small blocks that keep pages
    largest_kept: kept.Kept | None
    findings: list[Any]  # of this GPU, the worst first
    stack: list[Any]  # of the request, innermost first: (file, line, function)


def look(facts: Any, library: Any) -> Situation:
    """Looks around on the failing thread. Nothing of what is returned keeps a tensor or a frame alive."""
    frames = running.frames()
    ownership = Ownership(facts.gpu)
    request = holding_lines.of_site(library, facts.site)
    holders = _found([], holding_lines.by_size, library, facts.gpu)
    try:
        dead = _found([], variables.find_dead, frames, facts.gpu, ownership)
        idle = _found([], variables.find_idle, frames, facts.gpu, ownership)
        keeping = _found([], kept.find_kept, frames, facts.gpu, ownership)
        has_pools = _found(False, ownership.pools.are_there)
        in_flight = _found(levers.NOTHING, levers.look, frames, facts.gpu, dead)
        saved_bytes = _found(0, ownership.saved_for_backward)
        # What a step needs anyway is in lists, too; it matters if it is much, or would be enough.
        least_kept = max(LEAST_BYTES, min(facts.allocated_bytes // 20, facts.missing_bytes))
        changes = [
            *_found([], evaluation.find, frames, saved_bytes),
            *(variable.advice(has_pools) for variable in dead),
            *(variable.advice for variable in keeping if variable.bytes >= least_kept),
        ]
        return Situation(
            facts,
            request or holding_lines.of_frames(frames),
            holders,
            _found([], holding_lines.split, library, facts.gpu, holders[0]) if holders else [],
            library.epochs_ended(),
            saved_bytes,
            sorted(changes, key=lambda change: -change.bytes),
            idle,
            levers.find(facts, in_flight),
            _found(None, _pinning, library, facts) if facts.verdict == "fragmentation" else None,
            keeping[0] if keeping else None,
            _found([], _findings, library, facts.gpu),
            _found([], _stack, library, facts.site, frames),
        )
    finally:
        for frame in frames:
            frame.values.clear()


def _found(nothing: Any, look: Callable, *arguments: Any) -> Any:
    """What a look finds; `nothing` where it fails: the program's objects may answer in any way, and the rest is to be
    told all the same."""
    try:
        return look(*arguments)
    except Exception as error:
        _interruptions.pass_on(error)
        return nothing


def _stack(library: Any, number: int, frames: list[running.RunningFrame]) -> list[Any]:
    if number > 0 and (stack := users_lines.stack_of(library, library.site(number))):
        return list(stack)
    return [Frame(frame.file, frame.line, frame.function) for frame in frames]


_WORST_FIRST = {"leak": 0, "growing": 1, "suspect": 2}


def _findings(library: Any, gpu: int) -> list[Any]:
    found = [finding for finding in library.findings() if finding.gpu == gpu]
    return sorted(found, key=lambda finding: (_WORST_FIRST.get(finding.kind, 3), -finding.bytes))


PAGE_BYTES = 2 << 20


def _pinning(library: Any, facts: Any) -> Advice | None:
    """About the line whose blocks lie in the pages with the most free bytes that nothing else can use."""
    unusable: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    for segment in library.segments():
        if segment.gpu == facts.gpu:
            _count_pages(segment, unusable, blocks)
    # Of each line: how many bytes its blocks have, and how many nobody can use beside them.
    lines: dict[tuple, tuple[CodeLine, int, int]] = {}
    for site, free in unusable.items():
        if (code_line := holding_lines.of_site(library, site)) is not None:
            key = (code_line.file, code_line.line)
            made, block_bytes, free_bytes = lines.get(key, (code_line, 0, 0))
            lines[key] = made, block_bytes + blocks[site], free_bytes + free
    if not lines:
        return None
    made, block_bytes, free_bytes = max(lines.values(), key=lambda line: line[2])
    text = (
        f"make the small tensors of {made.short} ({size(block_bytes)}) before the large ones, or as one tensor: they "
        f"are spread over pages of 2 MiB whose other {size(free_bytes)} nothing large can use"
    )
    return Advice(text, made.file, made.line, free_bytes)


def _count_pages(segment: Any, unusable: Counter[int], blocks: Counter[int]) -> None:
    """Adds, by site, the free bytes of the pages that its blocks share, and the bytes of these blocks."""
    free: Counter[int] = Counter()
    owners: dict[int, dict[int, int]] = {}
    for block in segment.blocks:
        for page in range(block.address // PAGE_BYTES, (block.address + block.bytes - 1) // PAGE_BYTES + 1):
            start, end = (
                max(block.address, page * PAGE_BYTES),
                min(block.address + block.bytes, (page + 1) * PAGE_BYTES),
            )
            if block.state == "free":
                free[page] += end - start
            else:
                sites = owners.setdefault(page, {})
                sites[block.site] = sites.get(block.site, 0) + end - start
    for page, sites in owners.items():
        if free[page]:
            for site, count in sites.items():
                unusable[site] += free[page]
                blocks[site] += count

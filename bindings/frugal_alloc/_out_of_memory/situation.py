"""What is known when memory has run out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _interruptions
from .._native.sites import Frame
from .._program.code_lines import CodeLine
from .._tracking import users_lines
from . import evaluation, holding_lines, inner_lines, kept, levers, running, variables
from .holding_lines import HoldingLine
from .ownership import Ownership


class Situation(NamedTuple):
    facts: Any  # _native.out_of_memory.OutOfMemory
    request: CodeLine | None
    holders: list[HoldingLine]
    inner: list[HoldingLine]  # the lines of libraries within the first holder's
    epochs: int
    dead: list[variables.DeadVariables]
    idle: list[variables.IdleVariable]
    kept: list[kept.Kept]
    evaluation: evaluation.Evaluation | None
    has_pools: bool  # of graphs or the program's: see captures
    in_flight: levers.InFlight
    saved_bytes: int  # by autograd for backward, and held by nothing else
    findings: list[Any]  # of this GPU, the worst first
    stack: list[Any]  # of the request, innermost first: (file, line, function)
    pinning: tuple[CodeLine, int, int] | None  # whose small blocks keep pages: bytes of theirs, bytes unusable


def look(facts: Any, library: Any) -> Situation:
    """Looks around on the failing thread. Nothing of what is returned keeps a tensor or a frame alive."""
    frames = running.frames()
    ownership = Ownership(facts.gpu)
    request = holding_lines.of_site(library, facts.site)
    holders = _found([], holding_lines.by_size, library, facts.gpu)
    dead = _found([], variables.find_dead, frames, facts.gpu, ownership)
    try:
        return Situation(
            facts,
            request or holding_lines.of_frames(frames),
            holders,
            _found([], inner_lines.split, library, facts.gpu, holders[0]) if holders else [],
            library.epochs_ended(),
            dead,
            _found([], variables.find_idle, frames, facts.gpu, ownership),
            _found([], kept.find_kept, frames, facts.gpu, ownership),
            _found(None, evaluation.with_gradients, frames),
            _found(False, ownership.pools.are_there),
            _found(levers.NOTHING, levers.look, frames, facts.gpu, dead),
            _found(0, ownership.saved_for_backward),
            _found([], _findings, library, facts.gpu),
            _found([], _stack, library, facts.site, frames),
            _found(None, _pinning, library, facts) if facts.verdict == "fragmentation" else None,
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


def _pinning(library: Any, facts: Any) -> tuple[CodeLine, int, int] | None:
    """The line whose blocks lie in the pages with the most free bytes that nothing else can use."""
    unusable: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    for segment in library.segments():
        if segment.gpu == facts.gpu:
            _count_pages(segment, unusable, blocks)
    lines: dict[tuple, list] = {}
    for site, free in unusable.items():
        if (code_line := holding_lines.of_site(library, site)) is not None:
            entry = lines.setdefault((code_line.file, code_line.line), [code_line, 0, 0])
            entry[1] += blocks[site]
            entry[2] += free
    worst = max(lines.values(), key=lambda entry: entry[2], default=None)
    return None if worst is None else (worst[0], worst[1], worst[2])


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

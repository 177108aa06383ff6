"""What a program's memory gains from step to step, and how its inputs differ."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping

from ..timeline import NEVER, bytes_by_site
from . import verdict
from .recording import Recording
from .verdict import CodeLine, Growth, Inputs

# The first steps make what stays, as an optimizer's state; what the last ones have made may yet be let go.
_WARM_UP, _IN_FLIGHT = 1, 2
# So many of the others have to gain, and so many of the latest at least such a part of what others do.
_LEAST_STEPS = 3
_LATEST, _LEAST_PART = 2, 4


def growth(recording: Recording, lines: Mapping[int, CodeLine | None]) -> Growth | None:
    """None: not every step gains, or too few were seen."""
    steps = range(_WARM_UP + 1, recording.whole_steps - _IN_FLIGHT + 1)
    if len(steps) < _LEAST_STEPS:
        return None
    kept, replaced = _kept(recording, steps), _replaced(recording)
    gain, made = max(kept, replaced, key=lambda found: found[0])
    if gain <= 0:
        return None
    # What takes the place of another is there beside it for a while.
    needed = gain if kept[0] >= replaced[0] else 2 * gain
    by_line: collections.Counter[CodeLine | None] = collections.Counter()
    for site, size in made.items():
        by_line[lines.get(site)] += size
    return Growth(gain, needed, next((line for line, _ in by_line.most_common() if line is not None), None))


def _kept(recording: Recording, steps: range) -> tuple[int, collections.Counter[int]]:
    """Bytes that such a step makes and that are never freed, and all of them by site. Of a cache that is full, and grew
    before, what the latest steps add to it counts."""
    kept = [
        block
        for block in recording.allocations
        if block.died == NEVER and recording.stretches[block.phase].step in steps
    ]
    sizes = dict.fromkeys(steps, 0)
    for block in kept:
        sizes[recording.stretches[block.phase].step] += block.bytes
    gains = list(sizes.values())
    latest = min(gains[-_LATEST:])
    mean = sum(gains) // len(gains)
    return (mean if latest * _LEAST_PART >= mean else latest) if min(gains) else 0, bytes_by_site(kept)


def _replaced(recording: Recording) -> tuple[int, collections.Counter[int]]:
    """The bytes by which each step after the first leaves more behind, if they are the same each time: of a tensor,
    say, that a longer one takes the place of."""
    ends: dict[int, int] = {}
    for stretch in recording.stretches:
        ends.setdefault(stretch.step - 1, stretch.begins)
    left = [
        bytes_by_site(
            block for block in recording.allocations if block.born <= ends.get(step, recording.end) < block.died
        )
        for step in range(_WARM_UP + 1, recording.whole_steps + 1)
    ]
    gains = {after.total() - before.total() for before, after in itertools.pairwise(left)}
    return (gains.pop() if len(gains) == 1 else 0), left[-1] - left[-2]


def inputs(recording: Recording) -> Inputs | None:
    """None: no step was given any."""
    last = recording.whole_steps
    sizes: collections.Counter[int] = collections.Counter()
    for block in recording.allocations:
        step = recording.stretches[block.phase].step
        is_given = block.component == verdict.INPUTS and recording.reaches_model(block)
        # What stays is data that is kept on the GPU.
        if is_given and step <= last and (block.died != NEVER or step == last):
            sizes[step] += block.bytes
    if not sizes:
        return None
    (largest, most), *_ = sizes.most_common()
    return Inputs(min(sizes.values()), most, largest)

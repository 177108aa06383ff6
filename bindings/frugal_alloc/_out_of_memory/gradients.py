"""How long gradients stay, by the code of the frames: what sets them to zero comes before the next forward, before its
backward, or not on every way there."""

from __future__ import annotations

import dis
import enum
import functools
from collections.abc import Sequence
from types import CodeType

from .._program.liveness import Flow
from .scene import RunningFrame

_BACKWARDS = ("backward", "backward_fn", "_backward_fn", "manual_backward")
_CLEARING = "zero_grad"


class Stay(enum.Enum):
    """When a forward runs after the first."""

    GONE = "no gradients are there"
    CLEARED = "they are, until its backward"
    ADDED = "they are, and the backward adds to them"


def stay(frames: Sequence[RunningFrame]) -> Stay:
    """Where no backward is seen, it is the most.

    Args:
        frames: Innermost first; the forward is what the user's innermost frame, or one around it, runs.
    """
    of_steps = [i for i, frame in enumerate(frames) if any(map(_matters, frame.code.co_names))]
    if not of_steps:
        return Stay.ADDED
    outer = frames[of_steps[0] :]
    # The outermost are hardly ever come to.
    flow = functools.cache(lambda level: Flow(outer[level].code))
    at = functools.cache(lambda level: flow(level).index_at(outer[level].offset))
    # Where control is: the frame, the instruction, whether the backward has run, and whether they were cleared before.
    waiting = [(0, i, False, False) for i in flow(0).instructions[at(0)].successors]
    seen, stays = set(), set()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        level, i, passed, cleared = place
        instruction = flow(level).instructions[i]
        name = _named(outer[level].code).get(instruction.offset, "")
        if _CLEARING in name:
            if passed:
                stays.add(Stay.GONE)
                continue
            cleared = True
        passed = passed or name in _BACKWARDS
        if passed and (level, i) == (0, at(0)):
            stays.add(Stay.CLEARED if cleared else Stay.ADDED)
            continue
        if level and i == at(level):
            following = [(level - 1, 0)]
        elif instruction.successors or level + 1 == len(outer):
            following = [(level, j) for j in instruction.successors]
        else:
            following = [(level + 1, j) for j in flow(level + 1).instructions[at(level + 1)].successors]
        waiting += ((*there, passed, cleared) for there in following)
    return next((one for one in (Stay.ADDED, Stay.CLEARED, Stay.GONE) if one in stays), Stay.ADDED)


def _matters(name: str) -> bool:
    return name in _BACKWARDS or _CLEARING in name


@functools.lru_cache(maxsize=64)
def _named(code: CodeType) -> dict[int, str]:
    """The attributes that a code object takes, by the offset of the instruction."""
    return {one.offset: one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_ATTR", "LOAD_METHOD")}

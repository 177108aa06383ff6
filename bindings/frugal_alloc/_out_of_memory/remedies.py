"""What to change, the most useful first. Each comes with the bytes that it frees; one that frees none is left out."""

from __future__ import annotations

import math

from .._common.messages import format_bytes as size
from .._program.code_lines import written
from .._report import private_pools
from .holding_lines import HoldingLine
from .scene import BATCH, IDLE, LEAST_BYTES, NEEDLESS, SETTING, SMALLER, Advice
from .situation import Situation
from .step import spare_bytes

MIB = 1 << 20
# A change that brings less of what is missing is not worth its line.
_LEAST_PART = 10


def advise(situation: Situation) -> list[Advice]:
    """The most useful first: what is enough, and only where nothing is, what brings a part."""
    missing = situation.missing_bytes
    about = _about_the_verdict(situation)
    ranks = [situation.of_rank(rank) for rank in (NEEDLESS, SETTING, IDLE, BATCH, SMALLER)]
    ranks[2] = [*_pools(situation), *ranks[2]]
    if ranks[0] and _is_unknown(situation):
        about = []  # the line that the message has anyway
    if any(change.bytes >= missing for change in (*about, *ranks[0], *ranks[1])):
        ranks[2] = ranks[4] = []
    enough = [change for changes in (about, *ranks) for change in changes if change.bytes >= missing]
    least = max(LEAST_BYTES, situation.facts.missing_bytes // _LEAST_PART)
    parts = [change for change in (*about, *ranks[0], *ranks[2]) if least <= change.bytes < missing]
    if enough:
        return enough + [change for change in parts if change in about or change.bytes >= situation.facts.missing_bytes]
    parts.sort(key=lambda change: (change not in about, -change.bytes))
    # What the verdict is about, unless something else would bring several times as much.
    if len(parts) > 1 and parts[1].bytes > 4 * parts[0].bytes:
        parts[:2] = reversed(parts[:2])
    return parts + _what_must_go(situation)


def _about_the_verdict(situation: Situation) -> list[Advice]:
    facts = situation.facts
    if facts.verdict == "outside":
        return [_host(situation) if facts.host else _outside(situation)]
    if facts.verdict == "leak":
        return _leak(situation)
    if facts.verdict == "fragmentation":
        return situation.pinning
    return _limit(situation)


def _outside(situation: Situation) -> Advice:
    facts = situation.facts
    who = next((verdict["advice"] for verdict in situation.verdicts if verdict["kind"] == "outside"), None)
    text = who or (
        f"free the {size(facts.outside_bytes)} that are not PyTorch's: other processes on this GPU (nvidia-smi lists "
        f"them), or libraries of this process that call cudaMalloc"
    )
    return Advice(f"{text}; {_enough(situation)} less there is enough", None, None, facts.outside_bytes)


def _enough(situation: Situation) -> str:
    """What is missing to the end of the step, rounded up: to have as much as is said is to be enough."""
    return f"{math.ceil(_needed_bytes(situation) / MIB)} MiB"


def _needed_bytes(situation: Situation) -> int:
    missing = situation.missing_bytes
    return missing + (spare_bytes(missing) if missing > situation.facts.missing_bytes else 0)


def _host(situation: Situation) -> Advice:
    """Of a GPU whose memory is the host's."""
    facts = situation.facts
    others = facts.outside_bytes - facts.host_own_bytes
    if facts.host_own_bytes > others:
        text = (
            f"free memory of this process on the host, which is the GPU's, too ({size(facts.host_own_bytes)}): a "
            "checkpoint that was loaded to the host first, data that is kept there, pinned buffers"
        )
    else:
        text = (
            f"end other programs on this machine, whose {size(others)} are the GPU's memory, too (top sorts them by "
            "memory), or take them down to what they need"
        )
    return Advice(f"{text}; {_enough(situation)} less there is enough", None, None, facts.outside_bytes)


def _pools(situation: Situation) -> list[Advice]:
    """The line whose graphs, or whose pools, hold most that no tensor uses."""
    idle: dict[tuple, int] = {}
    for pool in situation.pools:
        place = pool["file"], pool["line"], pool["captured"]
        idle[place] = idle.get(place, 0) + private_pools.idle_bytes([pool])
    (file, line, captured), freed = max(idle.items(), key=lambda item: item[1], default=((None, None, False), 0))
    if freed < LEAST_BYTES:
        return []
    whose = f" of {written(file, line)}" if file else ""
    change = f"reset() the CUDA graphs{whose}, or let go of them," if captured else f"let go of the MemPools{whose}"
    return [Advice(f"{change} if they are not needed: {size(freed)} come back", file, line, freed, IDLE)]


def _leak(situation: Situation) -> list[Advice]:
    verdict = situation.leak
    if verdict is None:
        return []
    where = f"{written(verdict['file'], verdict['line'])}: " if verdict["file"] else ""
    return [Advice(f"{where}{verdict['advice']}", verdict["file"], verdict["line"], verdict["bytes"])]


def _is_unknown(situation: Situation) -> bool:
    """Whether all that is known of a leak is its line."""
    worst = next(iter(situation.verdicts), None)
    return situation.facts.verdict == "leak" and worst is not None and worst["pattern"] == "unknown"


def _limit(situation: Situation) -> list[Advice]:
    facts = situation.facts
    room = min(facts.device_total_bytes - facts.limit_bytes, facts.device_free_bytes)
    if not 0 < facts.missing_bytes <= room:
        return []
    text = f"the limit ({facts.limit_name}) leaves {size(facts.device_free_bytes)} of the GPU unused: raise it by "
    is_enough = _needed_bytes(situation) <= room
    return [Advice(text + (_enough(situation) if is_enough else size(room)), None, None, room)]


def _growing_line(situation: Situation) -> HoldingLine | None:
    """The one that asks, if it has made so much; else it is not known."""
    asks = situation.request[:2] if situation.request is not None else None
    own = (one for one in situation.holders if one.code_line[:2] == asks and one.bytes >= situation.grown_bytes)
    return next(own, None)


def _what_must_go(situation: Situation) -> list[Advice]:
    """Where nothing that is known would be enough."""
    facts, saved = situation.facts, situation.saved_bytes
    if situation.without_samples:
        return [Advice(situation.without_samples, None, None, situation.missing_bytes)]
    if situation.grown_bytes >= facts.missing_bytes and not saved and (growing := _growing_line(situation)) is not None:
        text = (
            f"bound what grows: {growing.code_line.short} made {size(growing.bytes)} of what is there. A cache of keys "
            "and values that each request adds to is to be cropped after it, or copied for it (copy.deepcopy)"
        )
        return [Advice(text, growing.code_line.file, growing.code_line.line, growing.bytes)]
    text = f"{size(facts.missing_bytes)} must go"
    if facts.requested_bytes > facts.limit_bytes:
        text += ": this one tensor is larger than all the memory there is"
    elif saved:
        text += (
            f"; {size(saved)} are results kept for backward: they shrink with the batch (accumulate gradients over "
            "smaller ones), or with checkpointing; autocast at most halves them"
        )
    else:
        text += "; nothing is kept for backward, so checkpointing would not help"
    return [Advice(text, None, None, situation.missing_bytes)]

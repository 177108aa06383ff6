"""What to change, the most useful first. Each comes with the bytes that it frees; one that frees none is left out."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._common.messages import format_bytes as size
from .._program.code_lines import short_path, written
from . import levers
from .kept import Kept
from .situation import Situation
from .variables import LEAST_BYTES, DeadVariables

# A change that brings less of what is missing is not worth its line.
_LEAST_PART = 10


class Advice(NamedTuple):
    text: str
    file: str | None
    line: int | None
    bytes: int


def advise(situation: Situation, verdicts: list[dict[str, Any]], batch: str | None = None) -> list[Advice]:
    """The most useful first.

    Args:
        situation: What was found.
        verdicts: Those of the report, for what it knows of a leak's pattern.
        batch: A sentence about the batch that would have fit, where two sizes have been seen.
    """
    missing = situation.facts.missing_bytes
    first = _BY_VERDICT.get(situation.facts.verdict, lambda *_: [])(situation, verdicts)
    changes = [
        *_evaluation(situation),
        *(_dead(dead, situation.has_pools) for dead in situation.dead),
        *_kept(situation),
    ]
    changes = [change for change in changes if change.bytes >= max(LEAST_BYTES, missing // _LEAST_PART)]
    changes.sort(key=lambda change: -change.bytes)
    if changes and _is_unknown(situation, verdicts):
        first = []  # the line that the message has anyway
    # What the verdict is about, unless something else would bring several times as much.
    is_minor = bool(first and changes) and changes[0].bytes > 4 * first[0].bytes
    found = changes[:1] + first + changes[1:] if is_minor else first + changes
    if batch is not None:
        found.append(Advice(batch, None, None, missing))
    if not any(change.bytes >= missing for change in found):
        found += _idle(situation)
    if not any(change.bytes >= missing for change in found):
        found += _size_of_the_step(situation)
    return found


def _outside(situation: Situation, verdicts: list[dict[str, Any]]) -> list[Advice]:
    facts = situation.facts
    if facts.host:
        return [_host(facts)]
    who = next((v["advice"] for v in verdicts if v["kind"] == "outside" and v["gpu"] == facts.gpu), None)
    text = who or (
        f"free the {size(facts.outside_bytes)} that are not PyTorch's: other processes on this GPU (nvidia-smi lists "
        f"them), or libraries of this process that call cudaMalloc"
    )
    return [Advice(f"{text}; {size(facts.missing_bytes)} less there is enough", None, None, facts.outside_bytes)]


def _host(facts: Any) -> Advice:
    """Of a GPU whose memory is the host's."""
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
    return Advice(f"{text}; {size(facts.missing_bytes)} less there is enough", None, None, facts.outside_bytes)


def _leak(situation: Situation, verdicts: list[dict[str, Any]]) -> list[Advice]:
    facts = situation.facts
    for verdict in verdicts:
        if verdict["kind"] in ("leak", "growing", "suspect", "cycle") and verdict["gpu"] == facts.gpu:
            where = f"{written(verdict['file'], verdict['line'])}: " if verdict.get("file") else ""
            return [Advice(f"{where}{verdict['advice']}", verdict.get("file"), verdict.get("line"), verdict["bytes"])]
    return []


def _is_unknown(situation: Situation, verdicts: list[dict[str, Any]]) -> bool:
    """Whether all that is known of a leak is its line."""
    worst = next((verdict for verdict in verdicts if verdict["gpu"] == situation.facts.gpu), None)
    return situation.facts.verdict == "leak" and worst is not None and worst.get("pattern") == "unknown"


def _fragmentation(situation: Situation, verdicts: list[dict[str, Any]]) -> list[Advice]:
    if situation.pinning is None:
        return []
    made, block_bytes, free_bytes = situation.pinning
    text = (
        f"make the small tensors of {made.short} ({size(block_bytes)}) before the large ones, or as one tensor: they "
        f"are spread over pages of 2 MiB whose other {size(free_bytes)} nothing large can use"
    )
    return [Advice(text, made.file, made.line, free_bytes)]


def _too_big(situation: Situation, verdicts: list[dict[str, Any]]) -> list[Advice]:
    facts = situation.facts
    room = facts.device_total_bytes - facts.limit_bytes
    if 0 < facts.missing_bytes <= min(room, facts.device_free_bytes):
        text = f"the limit ({facts.limit_name}) leaves {size(facts.device_free_bytes)} of the GPU unused: raise it by "
        return [Advice(f"{text}{size(facts.missing_bytes)}", None, None, facts.missing_bytes)]
    return []


_BY_VERDICT = {"outside": _outside, "leak": _leak, "fragmentation": _fragmentation, "too_big": _too_big}


def _evaluation(situation: Situation) -> list[Advice]:
    found = situation.evaluation
    if found is None or situation.saved_bytes < LEAST_BYTES:
        return []
    when = "" if found.is_certain else " if no backward is to follow"
    text = (
        f"call {found.model} at {written(found.file, found.line)} under torch.no_grad(){when}: "
        f"{size(situation.saved_bytes)} are held for a backward only"
    )
    return [Advice(text, found.file, found.line, situation.saved_bytes)]


def _dead(dead: DeadVariables, has_pools: bool) -> Advice:
    text = f"{dead.advice} of {short_path(dead.file)} frees {size(dead.bytes)}"
    if dead.rebound and len(dead.names) == len(dead.rebound):
        text += ": the line makes the new one while the old one is still there"
    if has_pools:
        text += "; not what a CUDA graph reads that is replayed later"
    return Advice(text, dead.file, dead.statement.first, dead.bytes)


def _kept(situation: Situation) -> list[Advice]:
    # What a step needs anyway is in lists, too; it matters if it is much, or would be enough.
    least = max(LEAST_BYTES, min(situation.facts.allocated_bytes // 20, situation.facts.missing_bytes))
    return [_of_kept(kept) for kept in situation.kept if kept.bytes >= least]


def _of_kept(kept: Kept) -> Advice:
    line = kept.added_in
    where = f"at {written(kept.file, line)}" if line else f"where {short_path(kept.file)} fills it"
    if not kept.is_container:
        text = (
            f"`{kept.name}` holds the graphs of all that went into it ({size(kept.graph_bytes)}): {where} add "
            "loss.detach() instead, or call backward for each"
        )
        return Advice(text, kept.file, line, kept.graph_bytes)
    if kept.graph_bytes * 2 >= kept.bytes:
        text = (
            f"`{kept.name}` keeps {kept.tensors} results with their graphs: {where} keep .detach() of each, or "
            f".item() of a loss; their graphs hold {size(kept.graph_bytes)}"
        )
        return Advice(text, kept.file, line, kept.graph_bytes)
    text = (
        f"`{kept.name}` holds {kept.tensors} tensors on the GPU ({size(kept.bytes)}): {where} keep them on the host "
        "(.cpu()), and move what a step needs"
    )
    return Advice(text, kept.file, line, kept.bytes)


def _idle(situation: Situation) -> list[Advice]:
    least = max(LEAST_BYTES, situation.facts.missing_bytes // _LEAST_PART)
    return [
        Advice(
            f"`{idle.name}` ({size(idle.bytes)}) is not needed while line {idle.line} of {short_path(idle.file)} runs: "
            "make it afterwards, or keep it on the host until then",
            idle.file,
            idle.line,
            idle.bytes,
        )
        for idle in situation.idle
        if idle.bytes >= least
    ]


def _size_of_the_step(situation: Situation) -> list[Advice]:
    """What is left to say: how much must go, and what the usual remedies can bring here."""
    facts, saved = situation.facts, situation.saved_bytes
    keeps_little = saved < max(facts.allocated_bytes // 10, 1)
    least = max(LEAST_BYTES, facts.missing_bytes // _LEAST_PART)
    found = [lever for lever in levers.find(facts, situation.in_flight) if lever.bytes >= least]
    if keeps_little and found:
        return [Advice(lever.text, None, None, lever.bytes) for lever in found]
    text = f"{size(facts.missing_bytes)} must go"
    if not keeps_little:
        text += (
            f"; {size(saved)} are results kept for backward: they shrink with the batch (accumulate gradients over "
            "smaller ones), or with checkpointing; autocast at most halves them"
        )
    elif facts.requested_bytes > facts.limit_bytes:
        text += ": this one tensor is larger than all the memory there is"
    else:
        text += "; little of what is held is kept for backward, so checkpointing would not help"
    return [Advice(text, None, None, facts.missing_bytes)]

"""What to change, the most useful first. Each comes with the bytes that it frees; one that frees none is left out."""

from __future__ import annotations

from typing import Any

from .._common.messages import format_bytes as size
from .._program.code_lines import written
from .advice import LEAST_BYTES, Advice
from .situation import Situation

# A change that brings less of what is missing is not worth its line.
_LEAST_PART = 10
#: Kinds of verdicts about memory that the program keeps.
LEAKS = ("leak", "growing", "suspect", "cycle")


def advise(situation: Situation, verdicts: list[dict[str, Any]], batch: str | None = None) -> list[Advice]:
    """The most useful first.

    Args:
        situation: What was found.
        verdicts: Those of the report, for what it knows of a leak's pattern.
        batch: A sentence about the batch that would have fit, where two sizes have been seen.
    """
    missing = situation.facts.missing_bytes
    least = max(LEAST_BYTES, missing // _LEAST_PART)
    changes = [change for change in situation.changes if change.bytes >= least]
    first = _about_the_verdict(situation, verdicts)
    if changes and _is_unknown(situation, verdicts):
        first = []  # the line that the message has anyway
    # What the verdict is about, unless something else would bring several times as much.
    is_minor = bool(first and changes) and changes[0].bytes > 4 * first[0].bytes
    ordered = changes[:1] + first + changes[1:] if is_minor else first + changes
    if batch is not None:
        ordered.append(Advice(batch, None, None, missing))
    if not _suffice(ordered, missing):
        ordered += [idle for idle in situation.idle if idle.bytes >= least]
    if not _suffice(ordered, missing):
        ordered += _size_of_the_step(situation, least)
    return ordered


def _suffice(changes: list[Advice], missing: int) -> bool:
    return any(change.bytes >= missing for change in changes)


def _about_the_verdict(situation: Situation, verdicts: list[dict[str, Any]]) -> list[Advice]:
    facts = situation.facts
    here = [verdict for verdict in verdicts if verdict["gpu"] == facts.gpu]
    advice = None
    if facts.verdict == "outside":
        advice = _host(facts) if facts.host else _outside(facts, here)
    elif facts.verdict == "leak":
        advice = _leak(here)
    elif facts.verdict == "fragmentation":
        advice = situation.pinning
    elif facts.verdict == "too_big":
        advice = _limit(facts)
    return [] if advice is None else [advice]


def _outside(facts: Any, here: list[dict[str, Any]]) -> Advice:
    who = next((verdict["advice"] for verdict in here if verdict["kind"] == "outside"), None)
    text = who or (
        f"free the {size(facts.outside_bytes)} that are not PyTorch's: other processes on this GPU (nvidia-smi lists "
        f"them), or libraries of this process that call cudaMalloc"
    )
    return Advice(f"{text}; {size(facts.missing_bytes)} less there is enough", None, None, facts.outside_bytes)


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


def _leak(here: list[dict[str, Any]]) -> Advice | None:
    for verdict in here:
        if verdict["kind"] in LEAKS:
            where = f"{written(verdict['file'], verdict['line'])}: " if verdict.get("file") else ""
            return Advice(f"{where}{verdict['advice']}", verdict.get("file"), verdict.get("line"), verdict["bytes"])
    return None


def _is_unknown(situation: Situation, verdicts: list[dict[str, Any]]) -> bool:
    """Whether all that is known of a leak is its line."""
    worst = next((verdict for verdict in verdicts if verdict["gpu"] == situation.facts.gpu), None)
    return situation.facts.verdict == "leak" and worst is not None and worst.get("pattern") == "unknown"


def _limit(facts: Any) -> Advice | None:
    room = facts.device_total_bytes - facts.limit_bytes
    if not 0 < facts.missing_bytes <= min(room, facts.device_free_bytes):
        return None
    text = f"the limit ({facts.limit_name}) leaves {size(facts.device_free_bytes)} of the GPU unused: raise it by "
    return Advice(f"{text}{size(facts.missing_bytes)}", None, None, facts.missing_bytes)


def _size_of_the_step(situation: Situation, least: int) -> list[Advice]:
    """What is left to say: how much must go, and what the usual remedies can bring here."""
    facts, saved = situation.facts, situation.saved_bytes
    keeps_little = saved < max(facts.allocated_bytes // 10, 1)
    levers = [lever for lever in situation.levers if lever.bytes >= least]
    if keeps_little and levers:
        return levers
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

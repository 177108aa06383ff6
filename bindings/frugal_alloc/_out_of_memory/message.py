"""The text below PyTorch's first sentence: what happened, to whom, and what to change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._common.messages import format_bytes as size
from .._common.messages import short_path as package_path
from .._program import code_lines
from .._report import private_pools
from .._report.diagnoses import DIAGNOSES
from . import holding_lines
from .holding_lines import HoldingLine, shorten
from .scene import Advice
from .situation import Situation, epochs_are

if TYPE_CHECKING:
    from .._native.out_of_memory import OutOfMemory

_WIDTH = 100
_LABEL = 14
_MOST_HOLDERS = 5
_MOST_LINES_OF_HOLDERS = 6
_MANY_BLOCKS = 8
_MOST_ADVICE = 3
_MUCH_GROWN_PART = 8


def write(situation: Situation, advice: list[Advice]) -> str:
    """Some 25 lines of at most 100 columns, but for a path that is longer. The report's line comes after them."""
    lines = textwrap.wrap(_verdict(situation), _WIDTH)
    lines += _labelled("Request", _request(situation))
    lines += _labelled("Held", _held(situation))
    lines += _labelled("", _holders(situation))
    lines += _labelled("Pools", private_pools.table(situation.pools, _made_at))
    lines += _labelled("Host", [situation.facts.host] if situation.facts.host else [])
    lines += _labelled("Tried", [_tried(situation.facts)])
    lines += _labelled("Fragmentation", [situation.pieces.text])
    for label, change in zip(("Change first", *("or, then",) * _MOST_ADVICE), advice[:_MOST_ADVICE], strict=False):
        lines += _labelled(label, [_with_effect(change, situation)])
    return "\n".join(lines)


def repeated(note: str) -> str:
    """What is said beside a text that was written for an earlier error."""
    return "\n".join(_labelled("Repeated", [note]))


def first_sentences(facts: OutOfMemory) -> str:
    """PyTorch's, as the library writes them."""
    return (
        f"CUDA out of memory. Tried to allocate {size(facts.requested_bytes)}. GPU {facts.gpu} has a total capacity of "
        f"{size(facts.device_total_bytes)} of which {size(facts.device_free_bytes)} is free."
    )


def _verdict(situation: Situation) -> str:
    """One sentence."""
    return f"{DIAGNOSES[situation.diagnosis].begins}: {_why(situation)}"


def _why(situation: Situation) -> str:
    facts, diagnosis = situation.facts, situation.diagnosis
    missing, total = size(facts.missing_bytes), size(facts.device_total_bytes)
    if facts.verdict == "leak":
        return _leak(situation)
    if diagnosis == "fragmentation":
        free = size(facts.unusable_bytes)
        return f"{missing} are missing, and {free} are free, but in pieces of memory that live tensors share."
    if diagnosis == "host":
        return (
            f"the GPU's memory is the host's, and {size(facts.outside_bytes)} of its {total} are in use beside "
            f"PyTorch's, {size(facts.host_own_bytes)} of them by this process itself; {missing} are missing."
        )
    if diagnosis == "outside":
        return (
            f"{size(facts.outside_bytes)} of the GPU's {total} belong to others (the CUDA context, libraries, other "
            f"processes){_growth_outside(situation)}; {missing} are missing."
        )
    if diagnosis == "refused":
        return f"{size(facts.device_free_bytes)} are free, of which the driver needs a part itself."
    if diagnosis == "held_by_pools":
        in_pools = private_pools.idle_bytes(situation.pools)
        return f"CUDA graphs and MemPools keep {size(in_pools)} that no tensor uses; {missing} are missing."
    return (
        f"{size(facts.allocated_bytes)} of live tensors and this request need {missing} more than there is; "
        f"{_why_too_big(situation)}"
    )


def _growth_outside(situation: Situation) -> str:
    for verdict in situation.verdicts:
        if verdict["kind"] == "outside":
            return f", {size(verdict['bytes'])} more than {verdict['epochs'] - 1} epochs ago"
    return ""


def _why_too_big(situation: Situation) -> str:
    largest = situation.largest_kept
    facts = situation.facts
    if largest is not None and largest.bytes >= max(facts.allocated_bytes // 4, facts.missing_bytes // 2):
        return f"{size(largest.bytes)} of them are there because {largest.keeper} keeps them."
    if situation.grown_bytes >= max(facts.allocated_bytes // _MUCH_GROWN_PART, facts.missing_bytes):
        return (
            f"{size(situation.grown_bytes)} of them have come in the later half of {situation.epochs_ended} epochs, "
            "too few to tell a leak from what grows on purpose."
        )
    if situation.facts.unusable_bytes >= situation.facts.missing_bytes:
        return f"{size(situation.facts.unusable_bytes)} are free, but in pieces of memory that live tensors share."
    if situation.epochs_ended == 0:
        return "it is not fragmentation, and no epoch has ended yet that could show a leak."
    return "no leak and no fragmentation explains it."


def _leak(situation: Situation) -> str:
    missing = f"{size(situation.facts.missing_bytes)} are missing"
    verdict = situation.leak
    if verdict is None:
        return f"{missing}, and memory that was made in earlier epochs stays."
    growth = f"{size(verdict['bytes'])} by now, {_rate(verdict)}"
    where = code_lines.written(verdict["file"], verdict["line"]) if verdict["file"] else "a line that is not known"
    return f"what {where} makes stays: {growth}; {missing}."


def _request(situation: Situation) -> list[str]:
    facts, code_line = situation.facts, situation.request
    if code_line is None:
        return [f"{size(facts.requested_bytes)}, by a line that is not known"]
    node = f"by {code_line.node}, the " if code_line.node else "at "
    where = f"{code_line.short} in {code_line.function}" if code_line.line else "backward, its forward line not known"
    phase = f", phase {code_line.phase}" if code_line.phase else ""
    lines = [f"{size(facts.requested_bytes)} {node}{where}{phase}"]
    if code_line.line and code_line.code:
        lines.append(f"    {shorten(code_line.code, 78)}")
    return lines


def _held(situation: Situation) -> list[str]:
    facts = situation.facts
    free = max(0, facts.reserved_bytes - facts.allocated_bytes - facts.awaiting_bytes)
    text = (
        f"frugal_alloc has reserved {size(facts.reserved_bytes)}: {size(facts.allocated_bytes)} allocated, "
        f"{size(facts.awaiting_bytes)} freed but still in use by a stream, {size(free)} free"
        f"{f', of which pools keep {size(facts.kept_bytes)}' if facts.kept_bytes else ''}."
    )
    if facts.asleep_bytes:
        text += f" {size(facts.asleep_bytes)} more sleep, and hold none of the GPU."
    if situation.saved_bytes:
        text += f" {size(situation.saved_bytes)} of the tensors are kept by autograd for backward alone."
    if facts.native_reserved_bytes > 0:
        text += (
            f" PyTorch's native allocator has reserved {size(facts.native_reserved_bytes)} (before "
            "frugal_alloc.enable(), or while it was disabled)."
        )
    if facts.outside_bytes > 0 and not facts.host:
        text += f" Others hold {size(facts.outside_bytes)} (CUDA context, libraries, other processes)."
    if facts.limit_bytes < facts.device_total_bytes:
        text += f" This process may hold {size(facts.limit_bytes)} ({facts.limit_name})."
    return [text]


def _holders(situation: Situation) -> list[str]:
    growth = {(row["file"], row["line"], bool(row["node"])): _rate(row) for row in situation.verdicts}
    lines = [
        _holder(holder, growth.get(holding_lines.key_of(holder.code_line), ""))
        for holder in situation.holders[:_MOST_HOLDERS]
    ]
    inner = [_inner(holder) for holder in _inner_lines(situation)]
    return [*lines[:1], *inner, *lines[1:]][:_MOST_LINES_OF_HOLDERS]


def _made_at(pool: dict[str, Any]) -> str:
    return code_lines.written(pool["file"], pool["line"]) if pool["file"] else ""


def _inner_lines(situation: Situation) -> list[HoldingLine]:
    """Of a line that is most of what is held, and many tensors: a step that a library carries out."""
    first = situation.holders[0] if situation.holders else None
    if first is None or 2 * first.bytes < situation.facts.allocated_bytes or first.blocks < _MANY_BLOCKS:
        return []
    return situation.inner


def _inner(holder: HoldingLine) -> str:
    backward = "backward of " if holder.code_line.node else ""
    where = f"{backward}{holder.code_line.function}, {package_path(holder.code_line.file)}:{holder.code_line.line}"
    return f"  {size(holder.bytes):>11}  of it in {where} ({_tensors(holder)})"


def _holder(holder: HoldingLine, trend: str) -> str:
    text = f"{size(holder.bytes):>11}  {holder.code_line.short} ({_tensors(holder)}{', ' if trend else ''}{trend})"
    room = _WIDTH - _LABEL - len(text) - 2
    code = holder.code_line.code
    return f"{text}  {shorten(code, room)}" if code and room > 15 else text


def _tensors(holder: HoldingLine) -> str:
    return "1 tensor" if holder.blocks == 1 else f"{holder.blocks} tensors"


def _rate(verdict: dict[str, Any]) -> str:
    """How fast it grows: by step where epochs are windows of steps."""
    if epochs_are("steps") and verdict["bytes_per_step"]:
        return f"{size(verdict['bytes_per_step'])} more with each step"
    return f"{size(verdict['bytes_per_epoch'])} more with each epoch"


def _tried(facts: OutOfMemory) -> str:
    gained = [f"{step['what']} ({size(step['gained_bytes'])})" for step in facts.tried if step["gained_bytes"] > 0]
    if gained:
        return ", ".join(gained) + ": not enough"
    return ", ".join(step["what"] for step in facts.tried) + ": in vain"


def _with_effect(change: Advice, situation: Situation) -> str:
    if change.bytes >= situation.missing_bytes > 0 or situation.facts.missing_bytes == 0:
        return f"{change.text}."
    missing = f"{size(situation.facts.missing_bytes)} missing"
    if change.bytes >= situation.facts.missing_bytes:
        missing = f"some {size(situation.missing_bytes)} that the step lacks to its end"
    return f"{change.text} ({size(change.bytes)} of the {missing})."


def _labelled(label: str, texts: Iterable[str]) -> list[str]:
    lines = []
    for text in texts:
        indent = len(text) - len(text.lstrip()) + 2 if text.startswith(" ") else 0
        lines += textwrap.wrap(
            text,
            _WIDTH - _LABEL,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return [f"{label if i == 0 else '':<{_LABEL}}{line}".rstrip() for i, line in enumerate(lines)]

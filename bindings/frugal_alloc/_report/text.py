"""A report for a terminal: what to do first, then what it rests on. At most 100 columns wide."""

from __future__ import annotations

import collections
import os
import textwrap
from typing import Any

from .._common.messages import format_bytes, format_count, share_text
from .._program import code_lines
from .._tracking.materiality import Cause, material_and_small
from . import gpus, private_pools
from .headline import ends_the_run, has_several_gpus, held, recovery, small_count, small_sentence, time_left, unwatched

WIDTH = 100
# Those on the first screen; the document has all.
MOST_VERDICTS = 5
MOST_SMALL = 5
MOST_SITES = 5
# With less than both a leak would not have been found: one takes survivors of six epochs, or of windows of steps.
EPOCHS_TO_TELL = 9
STEPS_TO_TELL = 16
# Of what is reserved; there are always some bytes beside a tensor.
LEAST_UNUSABLE_PART = 100

_BOLD, _RED, _YELLOW, _GREEN, _GREY = "1", "31", "33", "32", "90"
_COLOURS = {"leak": _RED, "growing": _RED, "cycle": _YELLOW, "outside": _RED, "suspect": _YELLOW}
_WORDS = {
    "leak": "leak",
    "growing": "growing tensor",
    "cycle": "reference cycle",
    "outside": "memory outside PyTorch",
    "suspect": "perhaps a leak",
}
_FOUND_BY = {
    "called": "",
    "data_loader": " (each time the training's DataLoader started over)",
    "steps": " (each of {steps:g} steps: no epoch has ended)",
    "calls": " (each of {steps:g} calls of modules: nothing has stepped)",
    "none": "",
}


def render(document: dict[str, Any], colour: bool = False) -> str:
    """The document as text.

    Args:
        document: As :func:`document.build` makes it, or as read from a file.
        colour: Whether to write a terminal's escape sequences.
    """
    paint = _painter(colour)
    lines: list[str] = []
    causes, small = material_and_small(document["verdicts"])
    oom = document.get("oom")
    if ends_the_run(oom):
        what = "memory ran out, and the program caught the error" if oom.get("caught") else "the run went out of memory"
        lines += [paint(_BOLD, f"frugal_alloc: {what}"), "", *_message(oom), ""]
    lines += _headline_of_leaks(document, causes, paint) if causes else _headline_of_none(document, small, paint)
    for number, cause in enumerate(causes[:MOST_VERDICTS], 1):
        lines += _verdict(number, cause, has_several_gpus(document), paint)
    if len(causes) > MOST_VERDICTS:
        lines.append(f"   and {len(causes) - MOST_VERDICTS} more")
    if document["suppressed"]:
        lines.append(f"   {format_count(document['suppressed'], 'verdict')} expected or suppressed")
    lines.append("")
    if oom and not ends_the_run(oom):
        lines += _wrapped(f"{recovery(oom)[:1].upper()}{recovery(oom)[1:]}. Of the latest that was looked into:")
        lines += [*_message(oom), ""]
    for row in document["gpus"]:
        lines += _gpu(document, row)
    lines += _sites(document)
    lines += [line for note in document["notes"] for line in _wrapped(note, "note: ", "      ")]
    lines += [paint(_GREY, line) for line in _small(small, document)]
    return "\n".join(lines).rstrip() + "\n"


def _message(oom: dict[str, Any]) -> list[str]:
    """The error's own text, which is laid out already."""
    lines = (oom.get("message") or "").splitlines()
    return [part for line in lines for part in ([line] if len(line) <= WIDTH else _wrapped(line))]


def _after(epochs: dict[str, Any]) -> str:
    """What has been seen so far."""
    if epochs["found_by"] == "steps" and epochs["steps_per_epoch"] == 1:
        after = f"after {format_count(epochs['ended'], 'step')}"
    else:
        found_by = _FOUND_BY.get(epochs["found_by"], "").format(steps=epochs["steps_per_epoch"] or 1)
        after = f"after {format_count(epochs['ended'], 'epoch')}{found_by}"
    return "; ".join(filter(None, (after, unwatched(epochs))))


def _headline_of_none(document: dict[str, Any], small: list[Cause], paint: Any) -> list[str]:
    epochs = document["epochs"]
    nothing, after, left_out = "no large leak" if small else "no leak", _after(epochs), unwatched(epochs)
    if left_out and not epochs["ended"]:
        return _wrapped(f"frugal_alloc: nothing is known about leaks: {left_out}")
    if left_out:
        return [paint(_YELLOW, line) for line in _wrapped(f"frugal_alloc: {nothing} in what was watched, {after}")]
    if epochs["found_by"] == "none" and not small:
        return ["frugal_alloc: nothing is known about leaks yet: no epoch has ended"]
    if epochs["ended"] < EPOCHS_TO_TELL and epochs["steps"] < STEPS_TO_TELL:
        return _wrapped(f"frugal_alloc: {nothing} {after}, which are few to tell from")
    return [paint(_GREEN, line) for line in _wrapped(f"frugal_alloc: {nothing} {after}")]


def _headline_of_leaks(document: dict[str, Any], causes: list[Cause], paint: Any) -> list[str]:
    first = causes[0]
    is_suspect = first.kind == "suspect"
    verdicts = [verdict for cause in causes for verdict in cause]
    rate = sum(verdict["bytes_per_epoch"] for verdict in verdicts if is_suspect or verdict["kind"] != "suspect")
    what = f"{_WORDS[first.kind]} of" if is_suspect else f"{_WORDS[first.kind]},"
    head = f"frugal_alloc: {what} {format_bytes(rate)} per {first.unit}, {_after(document['epochs'])}"
    lines = [paint(_BOLD, line) for line in _wrapped(head)]
    left = next((verdict["out_of_memory_in"] for verdict in verdicts if verdict["out_of_memory_in"]), None)
    if left and not ends_the_run(document.get("oom")):
        lines.append(f"At this rate memory runs out in {time_left(left)}.")
    return lines


def _verdict(number: int, cause: Cause, names_gpu: bool, paint: Any) -> list[str]:
    first = cause[0]
    where = _where(first, names_gpu)
    lines = ["", f"{number}. {paint(_COLOURS[cause.kind], _WORDS[cause.kind])}  {paint(_BOLD, where)}"]
    if first["code"]:
        lines.append(f"      {first['code'][: WIDTH - 6]}")
    confidence = f"; confidence {first['confidence']:.0%}" if first["confidence"] else ""
    lines += _wrapped(_facts(cause) + confidence, "   ")
    if first["node"]:
        lines.append(f"   allocated in backward, by {first['node']}")
    if first.get("ranks"):
        lines += _wrapped(f"on rank {', '.join(map(str, first['ranks']))}", "   ")
    for other in cause[1:4]:
        lines += _wrapped(f"also {_where(other)}: {_rate(Cause([other]))}", "   ", "      ")
    if len(cause) > 4:
        lines.append(f"   and {len(cause) - 4} more lines")
    for holder in cause.holders[:2]:
        lines += _wrapped(_held(holder, cause.held_things), "   ")
    lines += _wrapped(first["advice"], "   -> ", "      ")
    return lines


def _facts(cause: Cause) -> str:
    epochs, size = cause[0]["epochs"], format_bytes(cause.bytes)
    if cause.kind == "cycle":
        return f"{size} that only Python's garbage collector freed, at the ends of {epochs} epochs"
    if cause.kind == "outside":
        return f"{_rate(cause, 'epoch')}; {size} more than at the first of {epochs} epochs"
    return f"{_rate(cause)}; {held(cause)}"


def _rate(cause: Cause, unit: str = "") -> str:
    return f"{format_bytes(cause.bytes_per_epoch)} per {unit or cause.unit}"


def _held(holder: dict[str, Any], things: tuple[str, ...]) -> str:
    through = f", through {holder['through']}" if holder["through"] else ""
    share = share_text(holder["share"])
    count = format_count(holder["tensors"], *things)
    return f"held by {_holder(holder)}{through}: {count}{f', {share}' if share else ''}"


def _holder(holder: dict[str, Any]) -> str:
    place = f" ({_place(holder['file'], holder['line'])})" if holder["file"] and holder["line"] else ""
    return f"{holder['what']}{place}"


def _small(causes: list[Cause], document: dict[str, Any]) -> list[str]:
    """Of each that is not material a line, and the remedy."""
    if not causes:
        return []
    lines = _wrapped(f"{small_count(causes)}: {small_sentence(document['epochs'])}")
    for cause in causes[:MOST_SMALL]:
        held = f", held by {_holder(cause.holders[0])}" if cause.holders else ""
        where = _where(cause[0], has_several_gpus(document))
        lines += _wrapped(f"{_WORDS[cause.kind]} {where}: {_rate(cause)}{held}", "  ", "    ")
        lines += _wrapped(cause[0]["advice"], "    -> ", "       ")
    if len(causes) > MOST_SMALL:
        lines.append(f"  and {len(causes) - MOST_SMALL} more")
    return lines


def _where(verdict: dict[str, Any], names_gpu: bool = False) -> str:
    on_gpu = f" on GPU {verdict['gpu']}" if names_gpu else ""
    if not verdict["file"]:
        if verdict["kind"] == "outside":
            return f"on GPU {verdict['gpu']}"
        if verdict["pattern"] in ("cuda_graph_per_shape", "failed_capture", "private_pool"):
            return f"in private pools on GPU {verdict['gpu']}"
        # What TensorFlow's logs tell is an op, or a size of tensors.
        unknown = verdict["function"] or "no line is known"
        return (f"in phase {verdict['phase']}" if verdict["phase"] else unknown) + on_gpu
    function = verdict["function"]
    within = "" if function in (None, "", "<module>") else f" in {function}"
    return f"{_place(verdict['file'], verdict['line'])}{within}{on_gpu}"


def _gpu(document: dict[str, Any], row: dict[str, Any]) -> list[str]:
    name = f" ({row['name']})" if row["name"] else ""
    rank = f"rank {row['rank']}, " if row.get("rank") is not None else ""
    # What a training printed of its memory does not say how much there is.
    available = row["limit_bytes"] or row["total_bytes"]
    text = (
        f"{rank}GPU {row['gpu']}{name}: {format_bytes(gpus.in_use(row))} allocated, at most "
        f"{format_bytes(gpus.peak(row))}{f', of {format_bytes(available)}' if available else ''}"
    )
    lines = [text[:WIDTH]]
    if parts := gpus.pool_parts(row):
        lines.append("  of it " + ", ".join(f"{format_bytes(size)} {where}" for where, size in parts))
    lines += _wrapped(gpus.asleep_sentence(row), "  ")
    table = private_pools.table(
        row.get("private_pools") or [], lambda pool: _place(pool["file"], pool["line"]) if pool["file"] else ""
    )
    lines += [part for line in table for part in _wrapped(line, rest=" " * 15)]
    segments = [segment for segment in document["segments"] if segment["gpu"] == row["gpu"]]
    # Free memory of which only small tensors can have a part, if it is worth a line.
    unusable = sum(segment.get("unusable_bytes") or 0 for segment in segments)
    if unusable and unusable >= row["reserved_bytes"] / LEAST_UNUSABLE_PART:
        text = f"unusable: {format_bytes(unusable)} are free, but in pages that tensors in use share"
        lines += _wrapped(text, "  ")
    return lines + _wrapped(gpus.driver_sentence(row.get("driver_calls") or []), "  ")


def _sites(document: dict[str, Any]) -> list[str]:
    """The lines that held most when the library looked last, near the peak."""
    at_peak: collections.Counter[tuple] = collections.Counter()
    for site in document["sites"]:
        at_peak[site["file"], site["line"], site["function"], site["phase"]] += site["peak_bytes"]
    largest = [entry for entry in at_peak.most_common(MOST_SITES) if entry[1]]
    lines = ["Near the peak, most was held by"] if largest else []
    for (file, line, function, phase), size in largest:
        where = f"{_place(file, line)} in {function}" if file else (phase or function or "no line is known")
        lines.append(f"  {format_bytes(size):>11}  {where}"[:WIDTH])
    return lines


def _place(file: str, line: int) -> str:
    """The path as seen from the working folder, if it lies in it."""
    inside = os.path.relpath(file) if os.path.isabs(file) else file
    return code_lines.written(file if inside.startswith("..") else inside, line, shorten=False)


def _wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=first if rest is None else rest, break_long_words=False
    )


def _painter(colour: bool) -> Any:
    return lambda code, text: f"\x1b[{code}m{text}\x1b[0m" if colour else text

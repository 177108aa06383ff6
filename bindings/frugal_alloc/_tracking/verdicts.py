"""What the report accuses: the library's findings and those of Python, with their lines, holders and advice."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._common.messages import format_bytes
from .._heap.kept_pools import GRAPHS
from .._native import Library
from .._native.epochs import Finding
from .._native.sites import site_stack, site_text
from . import accusations, holders, materiality, patterns
from .accusations import Accusation, Line
from .holders import Evidence
from .materiality import MOST_CONFIDENCE
from .patterns import Leak
from .tracker import Tracker
from .trained import IS_TRAINED, WAS_TRAINED

# More are parts of the same.
MOST_VERDICTS = 50


class Judgement(NamedTuple):
    """Of all that was accused: rows of the document, each "stack" still in frames; and the GPUs' rows, by which it was
    judged."""

    gpus: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    silenced: int
    notes: list[str]


def judge(library: Library, tracker: Tracker, gpus: list[dict[str, Any]], searches: bool = True) -> Judgement:
    """All verdicts as of now, the surest and largest first, and last those that are not material.

    Args:
        library: The library.
        tracker: What follows this process.
        gpus: Rows of the document, for how much memory there is.
        searches: Whether to look for who holds what leaks, which takes tenths of a second; else only who was seen
            holding it before counts.
    """
    of_lines = accusations.find(library, tracker.cycles, tracker.epochs, tracker.outside)
    accused, kept_after, notes = _without_trained(library, of_lines, tracker)
    audible = [one for one in accused if not one.is_silenced(tracker.suppressions)]
    silenced = len(accused) - len(audible)
    evidence = tracker.witnesses.of(audible) if searches else tracker.witnesses.remembered(audible)
    audible = _with_graphs(audible, evidence)
    rates, rooms = _rates(audible), materiality.rooms(gpus)
    rows = []
    benign = []
    for accusation, held in zip(audible, evidence, strict=True):
        stack = site_stack(library, accusation.site)
        room = rooms.get(accusation.finding.gpu)
        leak = Leak(accusation, stack, held, accusation.line in kept_after, room)
        pattern = patterns.recognise(leak)
        if pattern.is_benign:
            benign.append((leak.holder.name.what, pattern.advice))
            continue
        rows.append(_row(leak, pattern, _time_left(accusation.finding, rates, room, tracker)))
    for row, is_material in zip(rows, materiality.of(rows, gpus, tracker.epochs.seconds_per_epoch), strict=True):
        row["material"] = is_material
    # What is harmless of a holder of something else is not worth a word.
    accused_holders = {holder["what"] for row in rows for holder in row["held_by"]}
    notes += [advice for what, advice in benign if what not in accused_holders]
    return Judgement(gpus, sorted(rows, key=_order)[:MOST_VERDICTS], silenced, notes)


def _with_graphs(accused: list[Accusation], evidence: list[Evidence]) -> list[Accusation]:
    """What is held together with CUDA graphs belongs to these: the inputs that a graph reads lie in no pool."""
    names = [{(holder.name.what, holder.name.line) for holder in held.holders[:1]} for held in evidence]
    with_graphs = set().union(*(held for one, held in zip(accused, names, strict=True) if one.whose == GRAPHS))
    return [
        accusation if held.isdisjoint(with_graphs) else accusation._replace(whose=GRAPHS)
        for accusation, held in zip(accused, names, strict=True)
    ]


def _without_trained(
    library: Library, accused: list[Accusation], tracker: Tracker
) -> tuple[list[Accusation], set[Line], list[str]]:
    """Without what is being trained, which grows on purpose; the lines of those left that hold what was trained before;
    and a note for each line that was left out."""
    left, kept_after, notes = [], set(), []
    for accusation, standing in zip(accused, tracker.witnesses.standings(accused), strict=True):
        if standing == IS_TRAINED:
            notes.append(
                f"{site_text(library, accusation.site.number)}: parameters in training, their gradients or "
                f"optimizer state grow by {format_bytes(accusation.finding.bytes_per_epoch)} per epoch, which is taken "
                "for meant"
            )
            continue
        left.append(accusation)
        if standing == WAS_TRAINED:
            kept_after.add(accusation.line)
    return left, kept_after, notes


def _order(row: dict[str, Any]) -> tuple[bool, int, float, str, bool]:
    """What the collector frees in the end comes after what is lost, and what is not sure comes after that.

    Lines of one rate come by their names: the library's own order depends on how much memory is left just now.
    """
    surely = {"cycle": 1, "suspect": 2}.get(row["kind"], 0)
    place = f"{row['file']}:{row['line']} in {row['function']}"
    return not row["material"], surely, -row["bytes_per_epoch"], place, bool(row["node"])


def _row(leak: Leak, pattern: patterns.Pattern, left: dict[str, Any] | None) -> dict[str, Any]:
    accusation, finding = leak.accusation, leak.accusation.finding
    file, line, function = accusation.frame or (None, None, None)
    return {
        "kind": finding.kind,
        "gpu": finding.gpu,
        "file": file,
        "line": line,
        "function": function,
        "code": leak.code,
        "phase": accusation.site.phase,
        "node": accusation.site.node,
        "bytes": finding.bytes,
        "bytes_now": accusation.bytes_now,
        "blocks": finding.blocks,
        "blocks_now": None if accusation.extents is None else len(accusation.extents),
        "bytes_per_epoch": finding.bytes_per_epoch,
        "bytes_per_step": accusation.bytes_per_step,
        "epochs": finding.epochs,
        "confidence": min(finding.confidence, MOST_CONFIDENCE),
        "pattern": pattern.name,
        "advice": pattern.advice,
        "held_by": [_held_by(holder) for holder in leak.evidence.holders],
        "out_of_memory_in": left,
        "stack": leak.frames,
    }


def _held_by(holder: holders.Holder) -> dict[str, Any]:
    name = holder.name
    return {
        "what": name.what,
        "through": name.through,
        "file": name.file,
        "line": name.line,
        "tensors": holder.tensors,
        "bytes": holder.bytes,
        "share": round(holder.share, 4),
    }


def _rates(accused: list[Accusation]) -> dict[int, float]:
    """Bytes per epoch of the program that are lost for good, on each GPU."""
    rates: dict[int, float] = {}
    for finding in (accusation.finding for accusation in accused):
        if finding.kind not in ("suspect", "cycle"):
            rates[finding.gpu] = rates.get(finding.gpu, 0) + finding.bytes_per_epoch
    return rates


def _time_left(
    finding: Finding, rates: dict[int, float], room: int | None, tracker: Tracker
) -> dict[str, float | None] | None:
    """Until memory runs out at the rate of all that grows on the GPU; None for what does not grow on for certain."""
    rate = rates.get(finding.gpu, 0.0)
    if finding.kind in ("suspect", "cycle") or rate <= 0 or room is None:
        return None
    steps = tracker.epochs.steps_per_epoch or (tracker.epochs.window_steps if tracker.epochs.steps else None)
    seconds = tracker.epochs.seconds_per_epoch
    return {
        "epochs": room / rate,
        "steps": room / rate * steps if steps else None,
        "seconds": room / rate * seconds if seconds is not None else None,
    }

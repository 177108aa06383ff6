"""What the report accuses: the library's findings and those of Python, with their lines, holders and advice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .._common.messages import format_bytes
from .._native import Library
from .._native.sites import Frame, Site
from .._program import code_lines
from . import accusations, expectations, holders, materiality, patterns
from .accusations import Accusation, Line
from .causes import MOST_CONFIDENCE
from .outside import OutsideGrowth
from .tracker import Tracker
from .trained import IS_TRAINED, WAS_TRAINED
from .users_lines import of_site, stack_of, text_of

# More are parts of the same.
MOST_VERDICTS = 50


class Verdict(NamedTuple):
    """A row of the document but for its stack, which is still in frames."""

    row: dict[str, Any]
    frames: tuple[Frame, ...]


class Judgement(NamedTuple):
    verdicts: list[Verdict]
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
    accused, kept_after, notes = _without_trained(
        library, accusations.find(library, tracker.cycles, tracker.epochs), tracker
    )
    kept = [one for one in accused if not expectations.is_silenced(one.kind, one.code_line, tracker.suppressions)]
    growths = tracker.outside.found()
    told = [one for one in growths if not expectations.is_silenced(_kind(one), None, tracker.suppressions)]
    silenced = len(accused) - len(kept) + len(growths) - len(told)
    evidence = tracker.witnesses.of(kept) if searches else tracker.witnesses.remembered(kept)
    rates = _rates(kept, told, tracker)
    verdicts = []
    for accusation, held in zip(kept, evidence, strict=False):
        place = _Place.of(library, accusation.site)
        pattern = patterns.recognise(_leak(accusation, place, held, accusation.line in kept_after))
        if pattern.is_benign:
            notes.append(pattern.advice)
            continue
        left = _time_left(accusation.kind, accusation.gpu, rates, gpus, tracker)
        verdicts.append(_verdict(accusation, place, held, pattern, left))
    verdicts += [_outside_verdict(growth, rates, gpus, tracker) for growth in told]
    for verdict, is_material in zip(verdicts, materiality.of([one.row for one in verdicts], gpus), strict=True):
        verdict.row["material"] = is_material
    verdicts.sort(key=lambda verdict: _order(verdict.row))
    return Judgement(verdicts[:MOST_VERDICTS], silenced, notes)


def _without_trained(
    library: Library, accused: list[Accusation], tracker: Tracker
) -> tuple[list[Accusation], set[Line], list[str]]:
    """Without what is being trained, which grows on purpose; the lines of those left that hold what was trained before;
    and a note for each line that was left out."""
    groups = [[] if one.kind == "cycle" else one.extents for one in accused]
    left, kept_after, notes = [], set(), []
    for one, standing in zip(accused, tracker.trained.standings(groups), strict=True):
        if standing == IS_TRAINED:
            notes.append(
                f"{text_of(library, one.site.number)}: parameters in training, their gradients or optimizer state "
                f"grow by {format_bytes(one.bytes_per_epoch)} per epoch, which is taken for meant"
            )
            continue
        left.append(one)
        if standing == WAS_TRAINED:
            kept_after.add(one.line)
    return left, kept_after, notes


def _order(row: dict[str, Any]) -> tuple[bool, int, float, str, bool]:
    """What the collector frees in the end comes after what is lost, and what is not sure comes after that.

    Lines of one rate come by their names: the library's own order depends on how much memory is left just now.
    """
    surely = {"cycle": 1, "suspect": 2}.get(row["kind"], 0)
    place = f"{row['file']}:{row['line']} in {row['function']}"
    return not row["material"], surely, -row["bytes_per_epoch"], place, bool(row["node"])


class _Place(NamedTuple):
    """Where memory of a site is told."""

    frame: Frame | None
    stack: tuple[Frame, ...]
    code: str

    @classmethod
    def of(cls, library: Library, site: Site) -> _Place:
        frame = of_site(library, site)
        return cls(frame, stack_of(library, site), code_lines.source(frame.file, frame.line) if frame else "")


def _leak(accused: Accusation, place: _Place, evidence: holders.Evidence, was_trained: bool) -> patterns.Leak:
    frame = place.frame
    where = code_lines.written(frame.file, frame.line) if frame else accused.site.phase
    return patterns.Leak(accused.kind, accused.site, place.stack, place.code, where, evidence, was_trained)


def _verdict(
    accused: Accusation,
    place: _Place,
    evidence: holders.Evidence,
    pattern: patterns.Pattern,
    left: dict[str, Any] | None,
) -> Verdict:
    file, line, function = place.frame or (None, None, None)
    in_use = sum(size for _, size, _ in accused.extents)
    row = {
        "kind": accused.kind,
        "gpu": accused.gpu,
        "file": file,
        "line": line,
        "function": function,
        "code": place.code,
        "phase": accused.site.phase,
        "node": accused.site.node,
        "bytes": accused.bytes,
        "bytes_now": None if accused.kind == "cycle" else min(accused.bytes, in_use),
        "blocks": accused.blocks,
        "bytes_per_epoch": accused.bytes_per_epoch,
        "bytes_per_step": accused.bytes_per_step,
        "epochs": accused.epochs,
        "confidence": min(accused.confidence, MOST_CONFIDENCE),
        "pattern": pattern.name,
        "advice": pattern.advice,
        "held_by": [_held_by(holder) for holder in evidence.holders],
        "out_of_memory_in": left,
    }
    return Verdict(row, place.stack)


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


def _kind(growth: OutsideGrowth) -> str:
    return "growing" if growth.is_pools else "outside"


def _outside_verdict(
    growth: OutsideGrowth, rates: dict[int, float], gpus: list[dict[str, Any]], tracker: Tracker
) -> Verdict:
    steps, kind = tracker.epochs.steps_per_epoch, _kind(growth)
    accused = Accusation(
        kind,
        growth.gpu,
        Site(0, "", (), "", 0),
        None,
        growth.bytes,
        0,
        growth.bytes_per_step * (steps or 1.0),
        growth.bytes_per_step if tracker.epochs.steps > 0 else None,
        growth.boundaries,
        growth.confidence,
        [],
    )
    pattern = patterns.POOLS if growth.is_pools else patterns.OUTSIDE
    left = _time_left(kind, growth.gpu, rates, gpus, tracker)
    verdict = _verdict(accused, _Place(None, (), ""), holders.NOTHING, pattern, left)
    verdict.row["bytes_now"] = None
    return verdict


def _rates(accused: Iterable[Accusation], growths: list[OutsideGrowth], tracker: Tracker) -> dict[int, float]:
    """Bytes per epoch of the program that are lost for good, on each GPU."""
    rates: dict[int, float] = {}
    for one in accused:
        if one.kind in ("leak", "growing"):
            rates[one.gpu] = rates.get(one.gpu, 0) + one.bytes_per_epoch
    for growth in growths:
        rate = growth.bytes_per_step * (tracker.epochs.steps_per_epoch or 1)
        rates[growth.gpu] = rates.get(growth.gpu, 0) + rate
    return rates


def _time_left(
    kind: str, gpu: int, rates: dict[int, float], gpus: list[dict[str, Any]], tracker: Tracker
) -> dict[str, float | None] | None:
    """Until memory runs out at the rate of all that grows on the GPU; None for what does not grow on for certain."""
    rate = rates.get(gpu, 0.0)
    row = next((row for row in gpus if row["gpu"] == gpu), None)
    room = materiality.room(row) if row is not None else None
    if kind in ("suspect", "cycle") or rate <= 0 or room is None:
        return None
    steps = tracker.epochs.steps_per_epoch or (tracker.epochs.window_steps if tracker.epochs.steps else None)
    return {"epochs": room / rate, "steps": room / rate * steps if steps else None}

"""What the report accuses: the library's findings and those of Python, with their lines, holders and advice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .._common.messages import format_bytes
from .._native import Library
from .._native.sites import Frame
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
    for one, found in zip(kept, evidence, strict=False):
        pattern = patterns.recognise(_leak(library, one, found, one.line in kept_after))
        if pattern.is_benign:
            notes.append(pattern.advice)
            continue
        left = _time_left(one.kind, one.gpu, rates, gpus, tracker)
        verdicts.append(_verdict(library, one, found, pattern, left))
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


def _order(row: dict[str, Any]) -> tuple[bool, int, float]:
    """What the collector frees in the end comes after what is lost, and what is not sure comes after that."""
    return not row["material"], {"cycle": 1, "suspect": 2}.get(row["kind"], 0), -row["bytes_per_epoch"]


def _leak(library: Library, accused: Accusation, evidence: holders.Evidence, was_trained: bool) -> patterns.Leak:
    frame = of_site(library, accused.site)
    code = code_lines.source(frame.file, frame.line) if frame else ""
    where = code_lines.written(frame.file, frame.line) if frame else accused.site.phase
    stack = stack_of(library, accused.site)
    return patterns.Leak(accused.kind, accused.site, stack, code, where, evidence, was_trained)


def _verdict(
    library: Library,
    accused: Accusation,
    evidence: holders.Evidence,
    pattern: patterns.Pattern,
    left: dict[str, Any] | None,
) -> Verdict:
    frame = of_site(library, accused.site)
    row = {
        "kind": accused.kind,
        "gpu": accused.gpu,
        "file": frame.file if frame else None,
        "line": frame.line if frame else None,
        "function": frame.function if frame else None,
        "code": code_lines.source(frame.file, frame.line) if frame else "",
        "phase": accused.site.phase,
        "node": accused.site.node,
        "bytes": accused.bytes,
        "bytes_now": None
        if accused.kind == "cycle"
        else min(accused.bytes, sum(size for _, size, _ in accused.extents)),
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
    return Verdict(row, stack_of(library, accused.site))


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


_OUTSIDE_ADVICE = (
    "neither PyTorch nor frugal_alloc holds it: look with nvidia-smi for another process on this GPU, else for a "
    "library with an allocator of its own (NCCL, CuPy, DALI, TensorRT) that is used anew each time"
)
_POOLS_ADVICE = (
    "PyTorch's private pools grow, those of CUDA graphs and MemPools: capture graphs for a few padded shapes instead "
    "of each, give them one pool (pool=first.pool()), and let old graphs go"
)


def _kind(growth: OutsideGrowth) -> str:
    return "growing" if growth.is_pools else "outside"


def _outside_verdict(
    growth: OutsideGrowth, rates: dict[int, float], gpus: list[dict[str, Any]], tracker: Tracker
) -> Verdict:
    steps = tracker.epochs.steps_per_epoch
    has_steps = tracker.epochs.steps > 0
    row = {
        "kind": _kind(growth),
        "gpu": growth.gpu,
        "file": None,
        "line": None,
        "function": None,
        "code": "",
        "phase": "",
        "node": "",
        "bytes": growth.bytes,
        "bytes_now": None,
        "blocks": 0,
        "bytes_per_epoch": growth.bytes_per_step * (steps or 1.0),
        "bytes_per_step": growth.bytes_per_step if has_steps else None,
        "epochs": growth.boundaries,
        "confidence": min(growth.confidence, MOST_CONFIDENCE),
        "pattern": "cuda_graph_per_shape" if growth.is_pools else "outside",
        "advice": _POOLS_ADVICE if growth.is_pools else _OUTSIDE_ADVICE,
        "held_by": [],
        "out_of_memory_in": _time_left(_kind(growth), growth.gpu, rates, gpus, tracker),
    }
    return Verdict(row, ())


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

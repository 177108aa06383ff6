"""A verdict's sentences and tables, for the terminal and for the page."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from ..._common.messages import format_bytes, format_count, on_one_line
from ..._program import code_lines
from . import verdict as names
from .verdict import Change, CodeLine, Gpu, Growth, Moment, RankPeaks, Sample, Tried, Verdict

Value = TypeVar("Value")

#: After "at step 3, ".
IN_PHASE = {
    names.FORWARD: "in forward",
    names.BACKWARD: "in backward",
    names.OPTIMIZER: "in the optimizer step",
    names.EVALUATION: "in evaluation",
    names.ELSEWHERE: "outside of the phases",
}
ALLOCATORS = {
    "frugal": "frugal_alloc",
    "native": "PyTorch's native allocator",
    "expandable": "PyTorch's expandable segments",
}
ALLOCATOR_ROWS_EXPLAINED = "in use: with the context; waste: reserved, not asked for; needs: smallest GPU"
FITS = {True: "yes", False: "no", None: "not known"}
NEEDED, ALL = "needed", "all"
_NO_NAME = "a GPU"
_MOST_COMMAND = 300


def printable(value: Value) -> Value:
    """The same with nothing in its texts that steers a terminal or a page: they are the program's. Names of phases and
    components are our own."""
    changed: Any = value
    if isinstance(value, Sample):
        return value
    if isinstance(value, str):
        changed = on_one_line(value)
    elif isinstance(value, (tuple, list)):
        changed = tuple(map(printable, value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: printable(getattr(value, field.name)) for field in dataclasses.fields(value)}
        changed = dataclasses.replace(value, **fields)
    return changed


def of_terminal_and_page(verdict: Verdict) -> Verdict:
    """As it is shown: printable, and of the error its first line, since the rest says what the verdict says."""
    lines = verdict.error.splitlines() or [""]
    return printable(dataclasses.replace(verdict, error=lines[0].strip()))


def headline(verdict: Verdict) -> str:
    """The verdict in one line."""
    worst = verdict.worst
    if verdict.fits is None:
        return f"no verdict: {_why_none(verdict)}{_known(verdict)}"
    if verdict.fits:
        if worst is None:
            return f"fits{_found(verdict)}: it takes no memory"
        if verdict.fills is not None:
            return f"fits{_found(verdict)} now, but {_filling(verdict, *verdict.fills)}"
        held = _amount(worst.peak.used_bytes, verdict.gpu.memory_bytes)
        most = format_bytes(worst.most_used_bytes)
        caches = f"; {most} with caches" if most != format_bytes(worst.peak.used_bytes) else ""
        return f"fits{_found(verdict)}: {held} {_seen(verdict)}{_moment(verdict)}{caches}{_differing(verdict)}"
    growing = verdict.worst.growth if verdict.worst is not None else None
    grows = f"; it grows {format_bytes(growing.bytes)} a {verdict.unit}" if growing is not None else ""
    return f"does not fit{_not_found(verdict)}: {_shortage(verdict)}{grows}"


def _filling(verdict: Verdict, step: int, growth: Growth) -> str:
    where = f"; {place(growth.where)} asks for most of it" if growth.where is not None else ""
    gain = f"{format_bytes(growth.bytes)} a {verdict.unit}"
    return f"grows {gain}: full in {verdict.unit} {step:,}; seen {_seen(verdict)}{where}"


def _seen(verdict: Verdict) -> str:
    """ "in 8 steps with PyTorch's native allocator"."""
    counted = f"in {_counted(verdict)}"
    if verdict.ended == names.ITSELF:
        counted = f"to its end, {counted}" if verdict.steps or verdict.calls else "to its end,"
    return f"{counted} {_with(verdict)}"


def _counted(verdict: Verdict) -> str:
    if verdict.unit == "call":
        return format_count(verdict.calls, "call of its model", "calls of its model")
    return format_count(verdict.steps, "step")


def _with(verdict: Verdict) -> str:
    return f"with {ALLOCATORS.get(verdict.allocator, verdict.allocator)}"


def _differing(verdict: Verdict) -> str:
    if verdict.largest_so_far is None:
        return ""
    return f"; batches differ, the longest so far in {verdict.unit} {verdict.largest_so_far.step}"


def _why_none(verdict: Verdict) -> str:
    where = _at_value(verdict)
    if verdict.ended == names.INTERRUPTED:
        return f"the program was interrupted{where}"
    if verdict.exit_status or verdict.ended == names.FAILED:
        return f"the program failed by itself{where}, with exit status {verdict.exit_status}"
    return f"the program ended and asked for no memory of a GPU{where}"


def _at_value(verdict: Verdict) -> str:
    """ " at --batch 64", of the run that has ended a search."""
    if not verdict.tried:
        return ""
    value = verdict.tried[-1].value
    return f" on {value}" if verdict.searched == "GPU" else f" at {verdict.searched} {value}"


def _known(verdict: Verdict) -> str:
    """What a search that has no answer has found out. It narrows down, so of each kind the last says most."""
    last = {tried.fits: tried.value for tried in verdict.tried}
    known = [f"{last[fits]} {said}" for fits, said in ((True, "fits"), (False, "does not fit")) if fits in last]
    return f"; known so far: {', '.join(known)}" if known else ""


def why_neither(tried: Tried) -> str:
    """Of a run that says neither that it fits nor that it does not."""
    if tried.ended == names.INTERRUPTED:
        return "interrupted"
    if tried.exit_status or tried.ended == names.FAILED:
        return f"failed by itself (status {tried.exit_status})"
    return "asked for no memory of a GPU"


def status_note(verdict: Verdict) -> str:
    """For a run without a verdict, since scripts might take its exit status for one; "" if it has one."""
    if verdict.fits is not None:
        return ""
    note = headline(verdict)
    if verdict.ended == names.INTERRUPTED:
        return note
    whose = "is the program's own" if verdict.exit_status else "stands for no verdict, too"
    note += f". Exit status {verdict.exit_status or 1} {whose}: it does not say that the program does not fit."
    if verdict.ended == names.FAILED and len(verdict.tried) > 1:
        # Output is shown of the first run only.
        note += f" To see the program's error, run it{_at_value(verdict).replace(' at ', ' with ')}."
    return note


def _found(verdict: Verdict) -> str:
    if not verdict.found:
        return ""
    if verdict.searched == "GPU":
        return f" {verdict.found}, the smallest GPU that will do"
    last = ", the largest of the range (a larger one may fit)" if verdict.found_is_last else ""
    return f" up to {verdict.searched} {verdict.found}{last}"


def _not_found(verdict: Verdict) -> str:
    if not verdict.tried or verdict.found:
        return ""
    if verdict.searched == "GPU":
        return " any GPU that is known"
    return f", even with {verdict.searched} {verdict.tried[0].value}"


def _shortage(verdict: Verdict) -> str:
    memory = verdict.gpu.memory_bytes
    has = f"{_gpu_name(verdict)} has {format_bytes(memory)}"
    if verdict.needs_bytes is not None:
        return f"needs {format_bytes(verdict.needs_bytes)} {_with(verdict)}, and {has}{_most(verdict)}"
    worst = verdict.worst
    if worst is None:
        return f"memory runs out {_with(verdict)}, and {has}"
    if worst.most_used_bytes > memory:
        return f"takes {format_bytes(worst.most_used_bytes)} {_with(verdict)}, and {has}{_most(verdict)}"
    return f"memory runs out at {_amount(worst.most_used_bytes, memory)} {_with(verdict)}{_moment(verdict)}"


def _most(verdict: Verdict) -> str:
    where = _moment(verdict)
    return f"; most is needed{where.removeprefix(',')}" if where else ""


def _gpu_name(verdict: Verdict) -> str:
    return "the GPU" if verdict.gpu.name == _NO_NAME else verdict.gpu.name


def _amount(part: int, whole: int) -> str:
    """ "18.20 of 23.60 GiB"; in two units where one is too coarse."""
    first, second = format_bytes(part), format_bytes(whole)
    if first.split()[-1] == second.split()[-1]:
        first = first.split()[0]
    return f"{first} of {second}"


def _moment(verdict: Verdict) -> str:
    worst = verdict.worst
    if worst is None:
        return ""
    rank = f", on {rank_name(worst)}" if len(verdict.ranks) > 1 else ""
    return f", {moment(worst.peak, verdict.unit)}{rank}"


def moment(at: Moment, unit: str) -> str:
    """ "at step 3, in backward, train.py:41"."""
    where = f", {place(at.where)}" if at.where is not None else ""
    return f"at {unit} {at.step}, {IN_PHASE.get(at.phase, at.phase)}{where}"


def place(where: CodeLine | None, *, function: bool = False) -> str:
    """ "train.py:41", or "train.py:41 in step"."""
    if where is None:
        return "no line of the program's own"
    within = f" in {where.function}" if function and where.function not in ("", "<module>") else ""
    return f"{code_lines.written(where.file, where.line)}{within}"


def components(rank: RankPeaks) -> list[tuple[str, tuple[int, ...]]]:
    """What was in use when each phase needed most: those that any phase has, with the bytes in each; waste is last."""
    # A name that we do not know is shown, too: else the columns would not add up.
    unknown = {name for moment in rank.phases for name in moment.components} - set(names.COMPONENTS)
    rows = [
        (name, tuple(moment.components.get(name, 0) for moment in rank.phases))
        for name in (*names.COMPONENTS, *sorted(unknown))
    ]
    return sorted((row for row in rows if any(row[1])), key=lambda row: row[0] == names.WASTE)


def phase_rows(rank: RankPeaks) -> list[tuple[str, tuple[int, ...]]]:
    """The components, with what is needed of them before waste, and all of them behind."""
    rows, used = components(rank), tuple(moment.used_bytes for moment in rank.phases)
    if rows and rows[-1][0] == names.WASTE:
        needed = tuple(all_of_it - waste for all_of_it, waste in zip(used, rows[-1][1], strict=True))
        rows.insert(-1, (NEEDED, needed))
    return [*rows, (ALL, used)]


def allocator_rows(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """The first has the titles."""
    rows = [("allocator", "fits", "most in use", "waste at the peak", "needs")]
    for verdict in verdicts:
        used = waste = "-"
        if (worst := verdict.worst) is not None:
            used = format_bytes(worst.most_used_bytes)
            waste = format_bytes(worst.peak.components.get(names.WASTE, 0))
        needs = "-" if verdict.needs_bytes is None else format_bytes(verdict.needs_bytes)
        rows.append((ALLOCATORS.get(verdict.allocator, verdict.allocator), FITS[verdict.fits], used, waste, needs))
    return rows


def rank_groups(verdict: Verdict) -> list[tuple[str, RankPeaks]]:
    """Ranks of which each phase took the same, by what they are called, with one of them: those that need most first.

    "rank 3", "ranks 0 to 7", "ranks 0, 2 and 5".
    """
    groups: dict[object, list[RankPeaks]] = {}
    for rank in verdict.ranks:
        key = tuple((at.phase, at.used_bytes, tuple(sorted(at.components.items()))) for at in rank.phases)
        groups.setdefault(key, []).append(rank)
    by_need = sorted(groups.values(), key=lambda ranks: -ranks[0].peak.used_bytes)
    return [(_name_of(ranks), ranks[0]) for ranks in by_need]


def _name_of(ranks: Sequence[RankPeaks]) -> str:
    numbers = sorted({rank.rank for rank in ranks})
    gpus = sorted({rank.gpu for rank in ranks})
    of_gpus = "" if len(ranks) == len(numbers) else f", GPUs {_listed(gpus)}"
    return f"rank{'s' if len(numbers) > 1 else ''} {_listed(numbers)}{of_gpus}"


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    if len(numbers) < 2:
        return "".join(map(str, numbers))
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def rank_name(rank: RankPeaks) -> str:
    """Of a process with several GPUs, each has peaks of its own."""
    return f"rank {rank.rank}" if rank.gpu in (0, rank.rank) else f"rank {rank.rank}, GPU {rank.gpu}"


def gain(change: Change) -> str:
    return f"{'estimated: ' if change.is_estimate else ''}{format_bytes(change.bytes)} less"


def reservations(verdict: Verdict) -> list[tuple[str, tuple[str, ...]]]:
    """What the answer rests on that is not known for certain, by title; silence would be no answer."""
    if verdict.fits is None:
        return []
    named = [("Guessed", verdict.guesses), ("Not modelled", verdict.not_modelled)]
    return named + ([("Not seen", verdict.not_seen)] if verdict.not_seen else [])


def facts(verdict: Verdict) -> list[tuple[str, str]]:
    """What the verdict rests on, by name."""
    gpu = verdict.gpu
    count = f"{verdict.gpus} of " if verdict.gpus > 1 else ""
    context = f", of which its context takes {format_bytes(gpu.context_bytes)}" if gpu.context_bytes else ""
    named = [
        ("Program", _shortened(shlex.join(verdict.command))),
        ("GPU", f"{count}{gpu.name}, {format_bytes(gpu.memory_bytes)}{context}"),
        *_sources(gpu),
        ("Allocator", ALLOCATORS.get(verdict.allocator, verdict.allocator)),
        ("Run", f"{_ended(verdict)}; {verdict.seconds:.1f} s"),
    ]
    if worst := verdict.worst:
        counted = (
            f"at most {format_bytes(worst.requested_peak_bytes)} asked for at a time, "
            f"and {format_bytes(worst.reserved_peak_bytes)} reserved"
        )
        of_rank = f" ({rank_name(worst)})" if len(verdict.ranks) > 1 else ""
        named.append(("PyTorch's own count", f"{counted}{of_rank}"))
    return named


def _sources(gpu: Gpu) -> Iterator[tuple[str, str]]:
    if gpu.source:
        # A place has what CUDA said there; all else says itself where it is from.
        said = "what CUDA calls the total memory of such a GPU, "
        source = gpu.source.replace("public log with the line:", f"{said}in a public log with the line")
        source = f"{said}published at {source}" if source.startswith("http") else source
        yield "GPU's memory", f"{format_bytes(gpu.memory_bytes)} is {source}"
    if gpu.context_source:
        yield "GPU's context", f"{format_bytes(gpu.context_bytes)} is {gpu.context_source}"


def _ended(verdict: Verdict) -> str:
    steps = _counted(verdict)
    return {
        names.STEPS: f"{steps}, then it was ended",
        names.ITSELF: f"{steps}, to its end" if verdict.steps or verdict.calls else "to its end",
        names.OUT_OF_MEMORY: f"memory ran out after {steps}",
        names.INTERRUPTED: f"interrupted after {steps}",
        names.FAILED: f"failed after {steps}, with exit status {verdict.exit_status}",
    }.get(verdict.ended, steps)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_COMMAND else f"{text[:_MOST_COMMAND]}..."

"""The sentence that sums up a report, and one for each verdict."""

from __future__ import annotations

from typing import Any

from .._common.messages import format_bytes, format_code_line, format_count
from .._tracking import materiality
from .._tracking.materiality import Cause, material_and_small
from .diagnoses import DIAGNOSES, Diagnosis

# From this many epochs on a leak can be told from what a run keeps on purpose.
ENOUGH_EPOCHS = 6

KIND_NAMES = {
    "leak": "leak",
    "suspect": "may leak",
    "growing": "growing tensor",
    "cycle": "reference cycle",
    "outside": "outside PyTorch",
}
# The worst first.
_ORDER = ("leak", "growing", "outside", "cycle", "suspect")
_SURE_KINDS = ("leak", "growing")


def small_sentence(epochs: dict[str, Any]) -> str:
    """What is said of the causes that are not material, after their number."""
    is_by_time = bool(epochs.get("seconds_per_epoch"))
    span = f"{materiality.MOST_DAYS} days" if is_by_time else f"{materiality.MOST_EPOCHS:,} epochs"
    steps = "calls of modules" if is_by_time else "steps"
    return f"at this rate memory would last for more than {span} and {materiality.MOST_STEPS:,} {steps}"


def time_left(left: dict[str, Any]) -> str:
    """Until memory runs out, of a verdict's "out_of_memory_in": "7.3 epochs (731 steps)", "34 hours"."""
    if left.get("seconds") is not None:
        minutes = left["seconds"] / 60
        for unit, name in ((24 * 60, "days"), (60, "hours"), (1, "minutes")):
            if minutes >= 2 * unit:
                return f"{minutes / unit:,.0f} {name}"
        return "less than two minutes"
    steps = "" if left["steps"] is None else f"{left['steps']:,.0f} steps"
    if left["steps"] == left["epochs"]:
        return steps
    epochs = f"{left['epochs']:,.0f}" if left["epochs"] >= 100 else f"{left['epochs']:.1f}"
    return f"{epochs} epochs{f' ({steps})' if steps else ''}"


def diagnosis(oom: dict[str, Any]) -> Diagnosis:
    """Of an error; a document of an older version has the library's verdict alone."""
    return DIAGNOSES[oom.get("diagnosis") or oom["verdict"]]


def ends_the_run(oom: dict[str, Any] | None) -> bool:
    """Whether there was an error after which the run got no further."""
    return oom is not None and not oom.get("went_on")


def recovery(oom: dict[str, Any]) -> str:
    """For a run that went on."""
    return f"the run met {format_count(oom.get('errors') or 1, 'out-of-memory error')} and went on"


def headline(document: dict[str, Any]) -> tuple[str, str]:
    """What is wrong, or that nothing is; and how bad that is: "bad", "warning", "good" or "unknown".

    What is not material is not wrong; where there is some, the sentence does not say that there is no leak at all.
    """
    oom = document["oom"]
    if ends_the_run(oom):
        text = f"Out of memory: {diagnosis(oom).headline}"
        if diagnosis(oom) is DIAGNOSES["too_big"] and oom["missing_bytes"] > 0:
            text = f"Out of memory: this step needs {format_bytes(oom['missing_bytes'])} more than the GPU has"
        return text + ("; the program caught the error" if oom.get("caught") else ""), "bad"
    text, mood = _of_leaks(document)
    if oom is None:
        return text, mood
    return f"{text}; {recovery(oom)}", "bad" if mood == "bad" else "warning"


def _of_leaks(document: dict[str, Any]) -> tuple[str, str]:
    causes, small = material_and_small(document["verdicts"])
    if causes:
        first = min(causes, key=lambda cause: _ORDER.index(cause.kind))
        more = len(causes) - 1
        others = f", and {format_count(more, 'more finding')}" if more else ""
        return sentence(first, has_several_gpus(document)) + others, "bad" if first.kind in _SURE_KINDS else "warning"
    epochs = document["epochs"]
    # Where nothing tells epochs, each step counts as one.
    unit = "step" if epochs["found_by"] == "steps" and epochs["steps_per_epoch"] == 1 else "epoch"
    if not epochs["ended"]:
        return f"Nothing is known about leaks yet: {unwatched(epochs) or 'no epoch has ended'}", "unknown"
    ended = format_count(epochs["ended"], unit)
    nothing = "No large leak" if small else "No leak"
    if left_out := unwatched(epochs):
        ended += f" that were watched; {left_out}"
        return f"{nothing} found in {ended}", "unknown"
    if epochs["ended"] >= ENOUGH_EPOCHS:
        return f"{nothing} found in {ended}", "good"
    return f"{nothing} seen, but only {ended} ended: a leak shows after {ENOUGH_EPOCHS}", "unknown"


def unwatched(epochs: dict[str, Any]) -> str:
    """What nothing was recorded of, "3 epochs were not watched"; "" if all was watched."""
    # A document of before this was noted has neither.
    if count := epochs.get("unwatched", 0):
        return f"{format_count(count, 'epoch was', 'epochs were')} not watched"
    if count := epochs.get("unwatched_steps", 0):
        return f"{format_count(count, 'step was', 'steps were')} not watched"
    return ""


def small_count(small: list[Cause]) -> str:
    """1 small one, 2 small ones."""
    return format_count(len(small), "small one")


def held(cause: Cause) -> str:
    """How much it holds: "64.00 MiB in 16 blocks"."""
    size, blocks = cause.held
    let_go = ", most of which has been let go since" if cause.is_let_go else ""
    in_blocks = f" in {format_count(blocks, 'block')}" if blocks else ""
    return f"{format_bytes(size)}{in_blocks}{let_go}"


def has_several_gpus(document: dict[str, Any]) -> bool:
    """Whether a verdict is to say on which GPU it is: of several ranks it says on which of them."""
    return len({row["gpu"] for row in document["gpus"]}) > 1 and not document.get("ranks")


def sentence(cause: Cause, names_gpu: bool = False) -> str:
    """What the verdicts of one cause say, in one line: the place of the first, the bytes of all."""
    first, kind, rate = cause[0], cause.kind, cause.bytes_per_epoch
    each = f"{format_bytes(rate)} with each {cause.unit}" if rate > 0 else format_bytes(cause.bytes)
    each += f" on GPU {first['gpu']}" if names_gpu else ""
    place = format_code_line(first["file"], first["line"])
    if kind == "outside":
        return f"Memory outside PyTorch grows: {each}"
    if kind == "cycle":
        of = f" of {place}" if place else ""
        return f"Reference cycles keep memory{of} until Python's garbage collector runs: {each}"
    if not place:
        verb = {"leak": "leaks", "suspect": "may leak", "growing": "grows"}[kind]
        return f"Memory of {first['function'] or first['phase'] or 'an unknown line'} {verb}: {each}"
    verb = {"leak": "leaks", "suspect": "may leak", "growing": "makes a tensor that grows by"}[kind]
    backward = f", in {first['node']} of its backward" if first["node"] else ""
    return f"{place} {verb} {each}{backward}"

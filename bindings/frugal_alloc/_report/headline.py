"""The one sentence that a report comes down to, and one for each verdict."""

from __future__ import annotations

from typing import Any

from .sizes import format_bytes, format_count, format_place

# From this many epochs on a leak can be told from what a run keeps on purpose.
ENOUGH_EPOCHS = 6

_OOM_SENTENCES = {
    "too_big": "Out of memory: this step needs more than the GPU has",
    "leak": "Out of memory: memory leaked until none was left",
    "fragmentation": "Out of memory: free memory is there, but in pieces",
    "outside": "Out of memory: something outside of PyTorch holds the GPU's memory",
}
OOM_NAMES = {
    "too_big": "too big",
    "leak": "leak",
    "fragmentation": "fragmentation",
    "outside": "memory outside PyTorch",
}
KIND_NAMES = {
    "leak": "leak",
    "suspect": "may leak",
    "growing": "growing tensor",
    "cycle": "reference cycle",
    "outside": "outside PyTorch",
}


def headline(document: dict[str, Any]) -> tuple[str, str]:
    """What is wrong, or that nothing is; and how bad that is: "bad", "warning", "good" or "unknown"."""
    if document["oom"]:
        return _OOM_SENTENCES[document["oom"]["verdict"]], "bad"
    verdicts = document["verdicts"]
    if verdicts:
        first = min(verdicts, key=lambda one: tuple(KIND_NAMES).index(one["kind"]))
        more = len(verdicts) - 1
        others = "" if not more else f", and {more} more finding{'s' if more > 1 else ''}"
        return sentence(first) + others, "bad" if first["kind"] == "leak" else "warning"
    epochs = document["epochs"]
    # Where nothing tells epochs, each step counts as one.
    unit = "step" if epochs["found_by"] == "steps" and epochs["steps_per_epoch"] == 1 else "epoch"
    ended = format_count(epochs["ended"], unit)
    if epochs["ended"] >= ENOUGH_EPOCHS:
        return f"No leak found in {ended}", "good"
    return f"No leak seen, but only {ended} ended: a leak shows after {ENOUGH_EPOCHS}", "unknown"


def sentence(verdict: dict[str, Any]) -> str:
    """What a verdict says, in one line."""
    place = format_place(verdict["file"], verdict["line"])
    each = _rate(verdict)
    kind = verdict["kind"]
    if kind == "outside":
        return f"Memory outside PyTorch grows: {each}"
    if kind == "cycle":
        of = f" of {place}" if place else ""
        return f"Reference cycles keep memory{of} until Python's garbage collector runs: {each}"
    if not place:
        verb = {"leak": "leaks", "suspect": "may leak", "growing": "grows"}[kind]
        return f"Memory of {verdict['function'] or 'an unknown line'} {verb}: {each}"
    verb = {"leak": "leaks", "suspect": "may leak", "growing": "makes a tensor that grows by"}[kind]
    backward = f", in {verdict['node']} of its backward" if verdict["node"] else ""
    return f"{place} {verb} {each}{backward}"


def _rate(verdict: dict[str, Any]) -> str:
    rate = verdict["bytes_per_epoch"]
    if rate <= 0:
        return format_bytes(verdict["bytes"])
    # Where nothing tells epochs, each step counts as one.
    return f"{format_bytes(rate)} with each {'step' if rate == verdict['bytes_per_step'] else 'epoch'}"

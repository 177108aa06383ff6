"""The report of an error: what the document knows of the run, and the files that are laid beside it."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from .. import _interruptions
from .._report import latest_error
from .fragmentation import Fragmentation
from .situation import Situation

#: The setting's value with which no file is written.
OFF = "off"

# Made when it is first needed.
_private: str | None = None


def describe(situation: Situation, pieces: Fragmentation, number: int) -> dict[str, Any]:
    """The document's "oom" but for its text and advice, its "stack" still in frames.

    Args:
        situation: What was found.
        pieces: Free memory by why it could not be used.
        number: Which of the errors of this process it is.
    """
    facts, place = situation.facts, situation.request
    is_known = place is not None and place.line > 0
    return {
        **facts._asdict(),
        "number": number,
        "step": latest_error.steps(),
        "file": place.file if is_known else None,
        "line": place.line if is_known else None,
        "function": place.function if place is not None else None,
        "code": place.code if is_known else "",
        "stack": situation.stack,
        "fragmentation": pieces._asdict(),
        "saved_for_backward_bytes": situation.saved_bytes,
    }


def build(error: dict[str, Any]) -> dict[str, Any] | None:
    """The document with this error; None where it cannot be made."""
    try:
        from .._report import document

        return document.build(error)
    except Exception as failure:  # the error is to be told even where the rest cannot be
        _interruptions.pass_on(failure)
        return None


def land(document: dict[str, Any], setting: str) -> str | None:
    """Writes the document's files; this process's earlier ones are replaced.

    Args:
        document: What :func:`build` made.
        setting: ``report_dir``: a folder, "off", or "" for the working directory. Where it cannot be written, a
            private temporary folder takes its place.

    Returns:
        The path to read; None if none was to be written, or none could be.
    """
    from .._report import files

    if setting == OFF:
        return None
    for find_folder in (lambda: os.path.abspath(setting or os.curdir), _private_folder):
        try:
            return files.write(document, find_folder())
        except Exception as failure:  # whatever it is, the error comes first
            _interruptions.pass_on(failure)
            continue
    return None


def _private_folder() -> str:
    """A temporary folder that only this user can read or write, the same one each time."""
    global _private
    if _private is None or os.path.islink(_private) or not os.access(_private, os.W_OK):
        _private = tempfile.mkdtemp(prefix="frugal-")
    return _private


def batch_that_fits(facts: Any) -> str | None:
    """A sentence about the largest batch that would have fit; None where fewer than two sizes have been seen."""
    try:
        from .. import _tracking
    except ImportError:
        return None
    tracker = _tracking.current()
    if tracker is None or tracker.batches.current is None:
        return None
    capacity = min(
        facts.limit_bytes - facts.native_reserved_bytes,
        facts.device_total_bytes - facts.outside_bytes - facts.native_reserved_bytes,
    )
    return fitting_batch(dict(tracker.batches.peaks), tracker.batches.current, capacity)


def fitting_batch(peaks: dict[int, int], current: int, capacity_bytes: int) -> str | None:
    """As :func:`batch_that_fits`, from the peaks of the sizes seen, on the line through the two largest."""
    sizes = sorted(size for size in peaks if size != current)[-2:]
    if len(sizes) < 2:
        return None
    small, large = sizes
    for_each = (peaks[large] - peaks[small]) / (large - small)
    if for_each <= 0:
        return None
    fits = int(large + (capacity_bytes - peaks[large]) // for_each)
    if not 0 < fits < current:
        return None
    seen = f"the peaks of {small} and {large}"
    return f"a batch of {fits} would have fit, by {seen}; this one is of {current}"

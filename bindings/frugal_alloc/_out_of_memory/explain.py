"""The explainer that the library calls when a request cannot be served.

Each kind of error is explained at its first, second, fourth, eighth ... error, else only counted: to explain one takes
50 ms of the thread that failed, and a program that searches for a batch that fits, or leaves out what does not fit, may
meet thousands.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _interruptions, _native
from .._program import source
from .._report import document, files, latest_error
from . import message, remedies, scene, situation
from .scene import Advice
from .situation import Situation

if TYPE_CHECKING:
    from .._native import Library
    from .._native.out_of_memory import OutOfMemory

# Of more kinds the oldest is forgotten; one may take some KiB.
_MOST_KINDS = 256
# Sizes in one such part of an octave are alike.
_PARTS_OF_OCTAVE = 4

_this_thread = threading.local()


def explain(facts: OutOfMemory) -> str | None:
    """What follows PyTorch's first sentence in the error; None: the library's own words are better than nothing.

    To be called on the thread that failed, with the interpreter's lock. Allocates nothing on a GPU, raises nothing but
    what the program's handlers of signals raise, and keeps neither frames nor tensors. Lays a report beside the run,
    too.
    """
    if getattr(_this_thread, "explaining", False):
        return None
    _this_thread.explaining = True
    try:
        library = _native.loaded()
        return None if library is None else _text(facts, library)
    except Exception as error:
        _interruptions.pass_on(error)
        return None
    finally:
        _this_thread.explaining = False


class Explanation(NamedTuple):
    """What was found out about an error."""

    text: str
    path: str | None  # of the report
    error: dict[str, Any]  # what the document says of it


class Errors:
    """The errors of one kind."""

    def __init__(self) -> None:
        self.met = 0
        self.explained_at = 0
        self.explanation: Explanation | None = None

    def is_due(self) -> bool:
        """Whether the latest is to be explained."""
        return self.met & (self.met - 1) == 0

    def note(self) -> str:
        """For the latest, which is not due: how many there were, and what the explanation beside it is of."""
        return (
            f"{self.met} errors like this so far: by the same line, with sizes alike. What is said here was "
            f"found out at number {self.explained_at}; number {2 ** self.met.bit_length()} is looked into again."
        )


_kinds: dict[tuple, Errors] = {}


def kind_of(facts: OutOfMemory, asked_at: Any, report_dir: str) -> tuple:
    """What two errors share that are told once.

    Args:
        facts: Of the error.
        asked_at: Where memory was asked for, anything that can be compared.
        report_dir: The setting: the report of an error that is only counted is the earlier one's.
    """
    of_request = (facts.requested_bytes, facts.missing_bytes)
    held = (facts.allocated_bytes, facts.native_reserved_bytes, facts.outside_bytes)
    return facts.gpu, asked_at, report_dir, facts.verdict, *map(_class, (*of_request, *held))


def count(kind: tuple) -> Errors:
    """Counts one more error of a kind."""
    errors = _kinds.setdefault(kind, Errors())
    errors.met += 1
    if len(_kinds) > _MOST_KINDS:
        _kinds.pop(next(iter(_kinds)), None)
    return errors


def _class(size: int) -> int:
    return round(_PARTS_OF_OCTAVE * math.log2(max(size, 1 << 20)))


def _text(facts: OutOfMemory, library: Library) -> str | None:
    """In full where the error is new, or due again; else by what was found out last."""
    number = latest_error.note(facts.gpu, facts.requested_bytes)
    asked_at = facts.site or scene.innermost_line()
    errors = count(kind_of(facts, asked_at, library.setting("report_dir")))
    if errors.is_due():
        with _unobserved():
            explanation = _explanation(facts, library, number)
        errors.explained_at, errors.explanation = errors.met, explanation
    if errors.explanation is None:
        return None
    text, path, error = errors.explanation
    latest_error.remember(error)
    library.correct_verdict(facts.gpu, error["verdict"])
    lines = [text]
    if errors.met > errors.explained_at:
        lines.append(message.repeated(errors.note()))
    if path is not None:
        lines.append(f"Report: {path}")
    return "\n".join(lines)


def _explanation(facts: OutOfMemory, library: Library, number: int) -> Explanation:
    seen = situation.look(facts, library)
    # The error is to be told even where the rest cannot be.
    judged = _interruptions.attempt(None, document.judge, library)
    if judged is not None:
        seen = seen.judged(judged.verdicts)
    advice = remedies.advise(seen)
    text = message.write(seen, advice)
    source.forget()
    error = _error(seen, number, advice, f"{message.first_sentences(facts)}\n{text}")
    built = _interruptions.attempt(None, document.build, error, judged)
    path = None if built is None else files.land(built, library.setting("report_dir"))
    return Explanation(text, path, error)


def _error(seen: Situation, number: int, advice: list[Advice], text: str) -> dict[str, Any]:
    """The document's "oom", its "stack" still in frames."""
    place = seen.request
    is_known = place is not None and place.line > 0
    return {
        **seen.facts._asdict(),
        "diagnosis": seen.diagnosis,
        "number": number,
        "step": latest_error.steps(),
        "file": place.file if is_known else None,
        "line": place.line if is_known else None,
        "function": place.function if place is not None else None,
        "code": place.code if is_known else "",
        "stack": seen.stack,
        "fragmentation": seen.pieces._asdict(),
        "saved_for_backward_bytes": seen.saved_bytes,
        "message": text,
        "advice": [{key: getattr(change, key) for key in ("text", "file", "line", "bytes")} for change in advice],
    }


@contextlib.contextmanager
def _unobserved() -> Iterator[None]:
    """Modes of the program's do not see what is looked at here."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield

"""The explainer that the library calls when a request cannot be served."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .. import _interruptions, _native, _tracking
from .._program import source
from .._report import latest_error
from . import error_report, fragmentation, message, remedies, repetition, running, situation

_this_thread = threading.local()


def explain(facts: Any) -> str | None:
    """What follows PyTorch's first sentence in the error; None: the library's own words are better than nothing.

    To be called on the thread that failed, with the interpreter's lock. Allocates nothing on a GPU, raises nothing but
    what the program's handlers of signals raise, and keeps neither frames nor tensors. Lays a report beside the run,
    too.

    Args:
        facts: `_native.out_of_memory.OutOfMemory`.
    """
    if getattr(_this_thread, "explaining", False):
        return None
    _this_thread.explaining = True
    try:
        library = _native.loaded()
        if library is None:
            return None
        return _tell(facts, library)
    except Exception as error:
        _interruptions.pass_on(error)
        return None
    finally:
        _this_thread.explaining = False


def _tell(facts: Any, library: Any) -> str | None:
    """In full where the error is new, or due again; else by what was found out last."""
    number = latest_error.note(facts.gpu, facts.requested_bytes)
    asked_at = facts.site or running.innermost_line()
    errors = repetition.count(repetition.kind_of(facts, asked_at, library.setting("report_dir")))
    if errors.is_due():
        with _unobserved():
            errors.explained(_explain(facts, library, number))
    told = errors.explanation
    if told is None:
        return None
    latest_error.remember(told.error)
    library.correct_verdict(facts.gpu, told.error["verdict"])
    lines = [told.text]
    if errors.met > errors.explained_at:
        lines.append(message.repeated(errors.note()))
    if told.path is not None:
        lines.append(f"Report: {told.path}")
    return "\n".join(lines)


def _explain(facts: Any, library: Any, number: int) -> repetition.Explanation:
    found = situation.look(facts, library)
    pieces = fragmentation.measure(facts, _can_map(library, facts.gpu))
    error = error_report.describe(found, pieces, number)
    document = error_report.build(error)
    verdicts = _verdicts(document, found) if document is not None else []
    if document is not None and (verdict := _verdict(facts, verdicts)) != facts.verdict:
        found = found._replace(facts=facts._replace(verdict=verdict))
        error["verdict"] = document["oom"]["verdict"] = verdict
    changes = remedies.advise(found, verdicts, error_report.batch_that_fits(facts))
    text = message.write(found, changes, pieces, verdicts)
    source.forget()
    told = {
        "message": f"{message.first_sentences(facts)}\n{text}",
        "advice": [change._asdict() for change in changes],
    }
    path = None
    if document is not None:
        document["oom"] |= told
        path = error_report.land(document, library.setting("report_dir"))
    return repetition.Explanation(text, path, error | told)


def _verdict(facts: Any, verdicts: list[dict[str, Any]]) -> str:
    """The library's verdict, unless what the report has found on the GPU says otherwise."""
    here = [row for row in verdicts if row["gpu"] == facts.gpu]
    if facts.verdict == "leak" and not any(row["kind"] in remedies.LEAKS for row in here):
        # What leaked until the last epoch's end has been let go since.
        return "too_big"
    if facts.verdict == "too_big":
        enough = [row for row in here if row["bytes"] >= facts.missing_bytes]
        # The library knows how much is outside, but not that it has come to be there in the course of the run.
        if any(row["kind"] == "outside" and _suffices(row["bytes"], facts) for row in enough):
            return "outside"
        if any(row["pattern"] == "cuda_graph_per_shape" for row in enough):
            return "leak"
    return facts.verdict


def _suffices(size: int, facts: Any) -> bool:
    """Whether the request would fit, had others so much less of the GPU: a limit holds whatever is free."""
    may_take = facts.limit_bytes - facts.reserved_bytes - facts.native_reserved_bytes
    gained = min(facts.device_free_bytes + size, may_take) - min(facts.device_free_bytes, may_take)
    return gained >= facts.missing_bytes


def _verdicts(document: dict[str, Any], found: situation.Situation) -> list[dict[str, Any]]:
    found_by = document["epochs"]["found_by"]
    how = {"is_by_step": found_by == "steps", "is_by_call": found_by == "calls"}
    return [row | how for row in document["verdicts"] if _still_holds(row, found)]


def _still_holds(row: dict[str, Any], found: situation.Situation) -> bool:
    """Whether the line of a verdict holds now what it held at the last epoch's end, or half of it; and whether what has
    grown outside is still there."""
    if row["kind"] == "outside" and row["gpu"] == found.facts.gpu:
        tracker = _tracking.current()
        more = 0 if tracker is None else tracker.outside.more_than_before(row["gpu"], found.facts.outside_bytes)
        return 2 * more >= row["bytes"]
    if row["kind"] not in remedies.LEAKS or not row["file"] or row["gpu"] != found.facts.gpu:
        return True
    at_line = [
        one.bytes for one in found.holders if (one.code_line.file, one.code_line.line) == (row["file"], row["line"])
    ]
    return 2 * sum(at_line) >= row["bytes"]


def _can_map(library: Any, gpu: int) -> bool:
    return bool(library.stats(gpu).get("virtual_memory", 1))


@contextlib.contextmanager
def _unobserved() -> Iterator[None]:
    """Modes of the program's do not see what is looked at here."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield

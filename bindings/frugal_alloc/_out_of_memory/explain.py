"""The explainer that the library calls when a request cannot be served."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .. import _interruptions, _native
from . import advice, fragmentation, message, remember, report, running, situation

_this_thread = threading.local()


def explain(facts: Any) -> str | None:
    """What follows PyTorch's first sentence in the error; None: the library's own words are better than nothing.

    To be called on the thread that failed, with the interpreter's lock. Allocates nothing on a GPU, raises nothing but
    what the program's handlers of signals raise, and keeps neither frames nor tensors. Lays a report beside the run,
    too.

    Args:
        facts: `_sites.OutOfMemory`.
    """
    if getattr(_this_thread, "explaining", False):
        return None
    _this_thread.explaining = True
    try:
        library = _native.loaded()
        if library is None:
            return None
        with _unobserved():
            return _explain(facts, library)
    except Exception as error:
        _interruptions.pass_on(error)
        return None
    finally:
        _this_thread.explaining = False


def _explain(facts: Any, library: Any) -> str:
    found = situation.look(facts, library)
    pieces = fragmentation.measure(facts, _can_map(library, facts.gpu))
    error = report.describe(found, pieces)
    document = report.build(error)
    verdicts = _verdicts(document, found) if document is not None else []
    if facts.verdict == "leak" and not any(row["kind"] in message.LEAKS for row in verdicts) and document is not None:
        # What leaked until the last epoch's end has been let go since.
        found = found._replace(facts=facts._replace(verdict="too_big"))
        error["verdict"] = document["oom"]["verdict"] = "too_big"
    changes = advice.advise(found, verdicts, report.batch_that_fits(facts))
    text = message.write(found, changes, pieces, verdicts)
    running.forget_sources()
    told = {
        "message": f"{message.first_sentences(facts)}\n{text}",
        "advice": [change._asdict() for change in changes],
    }
    remember(error | told)
    if document is not None:
        document["oom"] |= told
        path = report.land(document, library.setting("report_dir"))
        text += f"\nReport: {path}" if path is not None else ""
    return text


def _verdicts(document: dict[str, Any], found: situation.Situation) -> list[dict[str, Any]]:
    is_by_step = document["epochs"]["found_by"] == "steps"
    return [row | {"is_by_step": is_by_step} for row in document["verdicts"] if _still_holds(row, found)]


def _still_holds(row: dict[str, Any], found: situation.Situation) -> bool:
    """Whether the line of a verdict holds now what it held at the last epoch's end, or half of it."""
    if row["kind"] not in message.LEAKS or not row["file"] or row["gpu"] != found.facts.gpu:
        return True
    at_line = [one.bytes for one in found.holders if (one.place.file, one.place.line) == (row["file"], row["line"])]
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

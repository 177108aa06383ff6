"""The explainer that the library calls when a request cannot be served."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .. import _native
from . import advice, fragmentation, message, report, running, situation

_this_thread = threading.local()


def explain(facts: Any) -> str | None:
    """What follows PyTorch's first sentence in the error; None: the library's own words are better than nothing.

    To be called on the thread that failed, with the interpreter's lock. Allocates nothing on a GPU, raises nothing and
    keeps neither frames nor tensors. Lays a report beside the run, too.

    Args:
        facts: `_native.OutOfMemory`.
    """
    if getattr(_this_thread, "explaining", False):
        return None
    _this_thread.explaining = True
    try:
        with _unobserved():
            return _explain(facts, _native.loaded())
    except Exception:
        return None
    finally:
        _this_thread.explaining = False


def _explain(facts: Any, library: Any) -> str:
    found = situation.look(facts, library)
    pieces = fragmentation.measure(facts, _can_map(library, facts.gpu))
    document = report.build(found, pieces) if library is not None else None
    verdicts = document["verdicts"] if document is not None else []
    changes = advice.advise(found, verdicts, report.batch_that_fits(facts))
    text = message.write(found, changes, pieces, verdicts)
    running.forget_sources()
    if document is not None and (path := report.land(document, changes, text, library.setting("report_dir"))):
        text += f"\nReport: {path}"
    return text


def _can_map(library: Any, gpu: int) -> bool:
    return library is None or bool(library.stats(gpu).get("virtual_memory", 1))


@contextlib.contextmanager
def _unobserved() -> Iterator[None]:
    """Modes of the program's do not see what is looked at here."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield

"""The latest out-of-memory error of this process, and whether the run has gone on after it, as a search for a batch
size does.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class _Moment(NamedTuple):
    """When memory last ran out."""

    gpu: int
    steps: int
    served_bytes: int  # since the program began
    requested_bytes: int


_met = 0
_latest: _Moment | None = None
_has_ended = False
_error: dict[str, Any] | None = None


def note(gpu: int, requested_bytes: int) -> int:
    """Memory has run out; returns how often that makes."""
    global _met, _latest, _has_ended
    _met += 1
    _has_ended = False
    _latest = _Moment(gpu, steps(), _served_bytes(gpu), requested_bytes)
    return _met


def note_end() -> None:
    """The program ends by an error that memory ran out."""
    global _has_ended
    _has_ended = _latest is not None


def remember(error: dict[str, Any]) -> None:
    """Every report from now on has this error in it, also if the program has caught it."""
    global _error
    _error = error


def last() -> dict[str, Any] | None:
    """What the document says of the latest error, its "stack" still in frames; None: there was none."""
    return _error


def met() -> int:
    """The errors of this process so far."""
    return _met


def has_gone_on() -> bool:
    """Whether the run has got further since the latest error: it has made a step, or has been given as many bytes as
    that error was about."""
    if _latest is None or _has_ended:
        return False
    served = _served_bytes(_latest.gpu) - _latest.served_bytes
    # Below zero: the program has set the counters back since, and so it runs.
    return steps() > _latest.steps or served < 0 or served >= max(_latest.requested_bytes, 1)


def is_caught() -> bool:
    """Whether the program has caught the latest error and is done with it: it neither ends by it nor handles it just
    now, and no interpreter that people type into has shown it."""
    import torch

    shown = (sys.exc_info()[1], getattr(sys, "last_value", None))
    is_open = any(isinstance(error, torch.OutOfMemoryError) for error in shown)
    return _latest is not None and not _has_ended and not is_open


def steps() -> int:
    """The steps of the training so far."""
    from .. import _tracking

    tracker = _tracking.current()
    return 0 if tracker is None else tracker.epochs.steps


def _served_bytes(gpu: int) -> int:
    import torch

    return torch.cuda.memory_stats(gpu).get("allocated_bytes.all.allocated", 0)

"""The run that is followed in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._native import Library
    from .tracker import Tracker

_current: Tracker | None = None


def current() -> Tracker | None:
    """What follows this process; None where nothing does."""
    return _current


def forget() -> None:
    """In a child by fork, the run that was followed is not this one."""
    global _current
    _current = None


def restart(library: Library) -> None:
    """Begins anew, as if nothing had been seen: for what runs several programs in one process, as tests do.

    Raises:
        FrugalAllocError: the file of suppressions cannot be read, or a line of it is none.
    """
    global _current
    from . import tracker

    made = tracker.Tracker(library)
    made.suppress_by(library.setting("suppressions"))
    _current = made
    if library.epochs_ended():
        library.collapse_epochs()
    made.epochs.count_calls()
    library.set_epoch_listener(_calls_ended_epoch)


def _calls_ended_epoch() -> None:
    if _current is not None:
        _current.calls_ended_epoch()


def pause() -> None:
    """Nothing is recorded from now on, until :func:`start` is called again."""
    if _current is not None:
        _current.is_watching = False

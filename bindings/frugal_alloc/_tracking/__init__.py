"""Follows a run while it trains: epochs, steps, batch sizes and phases, and what of its memory is never let go.

The library attributes allocations to lines. This room tells it where epochs end, and judges what only Python sees:
reference cycles, memory outside PyTorch, and who holds what leaks. Whatever fails in here never reaches the program.

:func:`start` begins; :func:`current` is the run that is followed, and ``verdicts`` judges it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .._program import loop

if TYPE_CHECKING:
    from .._native import Library
    from .tracker import Tracker

__all__ = ["check_suppressions", "current", "pause", "restart", "start"]

_current: Tracker | None = None


def current() -> Tracker | None:
    """What follows this process; None where nothing does."""
    return _current


def start(library: Library) -> bool:
    """Begins to follow this process, once; does nothing where the setting ``track`` is off. Later calls follow the
    setting ``suppressions``. Returns whether this call began.

    Raises:
        FrugalAllocError: the file of suppressions cannot be read, or a line of it is none.
    """
    if _current is not None:
        _current.suppress_by(library.setting("suppressions"))
        _current.is_watching = library.setting("track") != "off"
        return False
    if library.setting("track") == "off":
        return False
    restart(library)
    return True


def restart(library: Library) -> None:
    """Begins anew, as if nothing had been seen: for what runs several programs in one process, as tests do.

    Raises:
        FrugalAllocError: the file of suppressions cannot be read, or a line of it is none.
    """
    global _current
    from . import tracker

    made = tracker.Tracker(library)
    made.suppress_by(library.setting("suppressions"))
    _forget()
    _current = made
    if library.epochs_ended():
        library.collapse_epochs()
    made.epochs.count_calls()
    library.set_epoch_listener(_calls_ended_epoch)
    loop.listen(made)


def pause() -> None:
    """Nothing is recorded from now on, until :func:`start` is called again."""
    if _current is not None:
        _current.is_watching = False


def check_suppressions(path: str) -> None:
    """Raises FrugalAllocError, in one line, if `path` names no file of suppressions."""
    from . import declarations

    declarations.read_suppressions(path)


def _calls_ended_epoch() -> None:
    if _current is not None:
        _current.calls_ended_epoch()


def _forget() -> None:
    global _current
    loop.leave(_current)
    _current = None


# The run that was followed is not a child's by fork: a loader's worker, or a process of its own.
os.register_at_fork(after_in_child=_forget)

"""Follows a run while it trains: epochs, steps, batch sizes and phases, and what of its memory is never let go.

The library attributes allocations to lines. This room tells it where epochs end, and judges what only Python sees:
reference cycles, memory outside PyTorch, and who holds what leaks. Whatever fails in here never reaches the program.

:func:`start` begins; :func:`current` is the run that is followed, and ``verdicts`` judges it. Imports from ``_common``,
``_interruptions``, ``_native`` and ``_program``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .followed import current, forget, pause, restart

if TYPE_CHECKING:
    from .._native import Library

__all__ = ["check_suppressions", "current", "forget", "pause", "restart", "start"]


def start(library: Library) -> bool:
    """Begins to follow this process, once; does nothing where the setting ``track`` is off. Later calls follow the
    setting ``suppressions``. Returns whether this call began.

    Raises:
        FrugalAllocError: the file of suppressions cannot be read, or a line of it is none.
    """
    tracker = current()
    if tracker is not None:
        tracker.suppress_by(library.setting("suppressions"))
        tracker.is_watching = library.setting("track") != "off"
        return False
    if library.setting("track") == "off":
        return False
    from . import hooks

    restart(library)
    hooks.install()
    return True


def check_suppressions(path: str) -> None:
    """Raises FrugalAllocError, in one line, if `path` names no file of suppressions."""
    from . import suppressions

    suppressions.read(path)

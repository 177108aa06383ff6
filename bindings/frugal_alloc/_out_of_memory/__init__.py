"""What an out-of-memory error says: found out on the failing thread, when every remedy has failed.

:func:`explain.explain` is what the library calls; ``disguises`` recognises errors that are memory running out under
another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import disguises

if TYPE_CHECKING:
    from .._native import Library
    from .._native.out_of_memory import OutOfMemory


def start(library: Library) -> None:
    """Errors are explained from now on. May be called again."""
    library.set_explainer(_explain)
    disguises.watch()


def stop() -> None:
    """The hooks for errors of the program are as they were; ours is gone where none was set after it."""
    disguises.unwatch()


def _explain(facts: OutOfMemory) -> str | None:
    # Here, since enable() is to cost little.
    from . import explain

    return explain.explain(facts)

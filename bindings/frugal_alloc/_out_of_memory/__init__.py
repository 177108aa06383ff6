"""What an out-of-memory error says. It is found out on the thread that asked for memory, when every remedy has failed.

:func:`start` and :func:`stop` switch it on and off. :func:`explain.explain` is what the library then calls;
``disguises`` recognises errors that are memory running out under another name.
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

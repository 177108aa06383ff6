"""Named parts of a program: ``with frugal_alloc.phase("evaluation"):``."""

from __future__ import annotations

import contextlib
import threading

from .. import _native

# The names of the phases that each thread is in, the innermost last.
_open = threading.local()


class Phase(contextlib.ContextDecorator):
    """What this thread allocates within it belongs to the phase. May be nested and, as a decorator, recursive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._before: list[str | None] = []

    def __enter__(self) -> Phase:
        library = _native.loaded()
        self._before.append(None if library is None else library.set_phase(self.name))
        if not hasattr(_open, "names"):
            _open.names = []
        _open.names.append(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        before = self._before.pop()
        _open.names.pop()
        library = _native.loaded()
        # One that was begun before enable() has nothing to go back to.
        if library is not None:
            library.set_phase(before or "")

    def _recreate_cm(self) -> Phase:
        # Each call of a decorated function, in each thread, has its own.
        return type(self)(self.name)


def checked_name(name: object, what: str) -> str:
    """`name`, if it is a text that is not empty.

    Raises:
        FrugalAllocError: it is none.
    """
    if not isinstance(name, str) or not name.strip():
        raise _native.FrugalAllocError(f"{what}({name!r}) is not possible; give a name, such as {what}('evaluation')")
    return name


def current() -> str:
    """The phase of this thread."""
    stack = getattr(_open, "names", None)
    return stack[-1] if stack else ""

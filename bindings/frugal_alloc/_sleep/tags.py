"""Names of what memory is for: :func:`frugal_alloc.tag`, :func:`frugal_alloc.retag`, and lists of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from .. import _native
from . import storages


class Tag(contextlib.ContextDecorator):
    """What this thread allocates within it has the tag. May be nested and, as a decorator, recursive."""

    def __init__(self, name: str) -> None:
        self.name = _checked(name, "tag")
        self._entered: list[_native.Library | None] = []

    def __enter__(self) -> Tag:
        library = _native.loaded()
        if library is not None:
            library.enter_tag(self.name)
        self._entered.append(library)
        return self

    def __exit__(self, *_: object) -> None:
        library = self._entered.pop()
        if library is not None:
            library.leave_tag()

    def _recreate_cm(self) -> Tag:
        # Each call of a decorated function, in each thread, has its own.
        return type(self)(self.name)


def retag(what: Any, name: str) -> int:
    """See :func:`frugal_alloc.retag`."""
    _checked(name, "retag")
    found = storages.owned_by(what)
    library = _native.loaded()
    if library is None:
        return 0
    # An optimizer's state may be yet to come.
    library.retag(None, name)
    return sum(storage.nbytes() for storage in found if library.retag(storage._cdata, name))


def _checked(name: Any, function: str) -> str:
    if not _is_name(name):
        raise _native.FrugalAllocError(
            f"{function}: {name!r:.200} is no name of a tag; give a text of one line, such as 'weights'"
        )
    return name


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def names(given: str | Iterable[str], argument: str) -> tuple[str, ...]:
    """The tags that an argument names, each once; a text is the one name.

    Raises:
        FrugalAllocError: they are no names.
    """
    listed = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for name in listed:
        if not _is_name(name):
            raise _native.FrugalAllocError(
                f"{argument}={given!r:.200} is not possible; give names of tags, such as {argument}=('weights',)"
            )
    return tuple(dict.fromkeys(listed))

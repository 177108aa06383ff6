"""Names of what memory is for: :func:`frugal_alloc.tag`, :func:`frugal_alloc.retag`, and lists of them."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from .. import _native
from . import storages


class _Entered:
    """A `with` of a tag. The library reads it (bindings/tracking/python_context.h): `outer` and `tag` are the first of
    the slots, which Python sorts."""

    __slots__ = ("outer", "tag", "text")

    def __init__(self, outer: _Entered | None, number: int, text: str) -> None:
        self.outer = outer or self
        self.tag = bytes((number,))
        self.text = text

    def that_holds(self) -> _Entered:
        """Itself, or what is around it, in whose place it was, if it has been left."""
        innermost = self
        while innermost.tag == b"\0" and innermost.outer is not innermost:
            innermost = innermost.outer
        return innermost

    def is_around(self, inner: _Entered) -> bool:
        while inner is not self and inner.outer is not inner:
            inner = inner.outer
        return inner is self


_NONE = _Entered(None, 0, "")
#: Of each task of asyncio's, and each thread. A task has what it was started in, until that is left.
_current = contextvars.ContextVar("frugal_alloc.tag", default=_NONE)


@functools.cache
def _follows_tasks(library: _native.Library) -> bool:
    """False: the library cannot read this Python's contexts, and a tag is its thread's."""
    context, probe = contextvars.copy_context(), _Entered(None, 255, "")

    def find() -> bool:
        _current.set(probe)
        return library.find_context(_current, context, probe, 255)

    return context.run(find)


class Tag(contextlib.ContextDecorator):
    """What this task, or this thread, allocates within it has the tag. May be nested and, as a decorator, recursive."""

    def __init__(self, name: str) -> None:
        self.name = _checked(name, "tag")
        self._left_by: list[Callable[[], str]] = []

    def __enter__(self) -> Tag:
        library = _native.loaded()
        number = 0 if library is None else library.tag_number(self.name)
        if library is None or number == 0:
            self._left_by.append(str)
        elif _follows_tasks(library):
            entered = _Entered(_current.get().that_holds(), number, self.name)
            _current.set(entered)
            library.follow_contexts(1)
            self._left_by.append(functools.partial(_leave, library, entered))
        else:
            library.tag(self.name)
            self._left_by.append(lambda: library.untag() or "")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        wrong = self._left_by.pop()()
        if wrong and kind is None:
            raise _native.FrugalAllocError(wrong)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def within(*arguments: Any, **named: Any) -> Any:
            with self._recreate_cm():
                return await function(*arguments, **named)

        return within

    def _recreate_cm(self) -> Tag:
        # Each call of a decorated function, in each thread, has its own.
        return type(self)(self.name)


def _leave(library: _native.Library, entered: _Entered) -> str:
    """What is wrong with the order, if anything is. The tag holds no more either way, in no task that has it."""
    innermost = _current.get()
    entered.tag = b"\0"
    _current.set(innermost.that_holds())
    library.follow_contexts(-1)
    if innermost is entered:
        return ""
    if entered.is_around(innermost):
        return (
            f"tag({entered.text!r}) was left before tag({innermost.text!r}), which was entered within it: leave them "
            "in the reverse order, each by a `with` of its own"
        )
    return (
        f"tag({entered.text!r}) was entered in one task or thread and left in another: enter and leave it in the same"
    )


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

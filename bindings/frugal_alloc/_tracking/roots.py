"""Where a program's names are: its modules, the functions that run, and what is set for the context."""

from __future__ import annotations

import contextvars
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._program.frame_variables import variables
from .._program.users_code import is_ours, is_users
from . import raw_objects

# They name nothing but themselves.
_PLAIN = (types.ModuleType, str, bytes, int, float, bool, type(None))

#: Functions that wait, with what the names of their attributes begin with.
WAITING = {types.GeneratorType: "gi", types.CoroutineType: "cr", types.AsyncGeneratorType: "ag"}


class Root(NamedTuple):
    """A name, and what it refers to."""

    kind: str  # "variable", of a module or of a function that runs; "context variable", "generator"
    name: str
    value: Any
    file: str | None
    function: str  # "<module>": of a module
    is_users: bool


def of_program() -> list[Root]:
    """What the program's own code calls by a name.

    Modules come first: what they hold stays. Then functions, the outermost first, since what an inner one was handed
    is another's.
    """
    found = [root for module in _modules() for root in _of_module(module, are_users=True)]
    found += _of_frames(are_users=True)
    for variable, value in contextvars.copy_context().items():
        found.append(Root("context variable", variable.name, value, None, "", True))
    return found


def of_libraries(objects: Iterable[Any]) -> list[Root]:
    """What libraries call by a name, and functions that wait: generators and coroutines.

    Args:
        objects: All that Python's collector knows.
    """
    found = _of_frames(are_users=False)
    # A class may have a comparison of its own.
    waiting = set(map(id, WAITING))
    for value in objects:
        if id(type(value)) in waiting:
            code = code_of_waiting(value)
            found.append(Root("generator", code.co_name, value, code.co_filename, "", is_users(code.co_filename)))
    found += [root for module in _modules() for root in _of_module(module, are_users=False)]
    return found


def code_of_waiting(generator: Any) -> types.CodeType:
    """The code of a generator or coroutine."""
    return getattr(generator, f"{WAITING[type(generator)]}_code")


def frame_of_waiting(generator: Any) -> types.FrameType | None:
    """Its frame; None: it has ended."""
    return getattr(generator, f"{WAITING[type(generator)]}_frame")


def _modules() -> list[types.ModuleType]:
    return [module for module in list(sys.modules.values()) if issubclass(type(module), types.ModuleType)]


def _of_module(module: types.ModuleType, are_users: bool) -> Iterator[Root]:
    """The variables of a module if it is the program's, or if it is a library's."""
    namespace = raw_objects.dictionary_of(module) or {}
    file, module_name = namespace.get("__file__"), namespace.get("__name__")
    file = file if isinstance(file, str) else None
    is_programs = module_name == "__main__" or is_users(file)
    if is_programs != are_users or (file is not None and is_ours(file)):
        return
    for name, value in raw_objects.items_of(namespace):
        if isinstance(name, str) and not name.startswith("__") and not issubclass(type(value), _PLAIN):
            yield Root("variable", name, value, file, "<module>", are_users)


def _of_frames(are_users: bool) -> list[Root]:
    """The variables of the functions that run: the program's, or those of libraries."""
    namespaces = {id(raw_objects.dictionary_of(module)) for module in _modules()}
    found: list[Root] = []
    # `frame` ends as None in each: one that referred to its own frame would keep all variables of the stack alive.
    for frame in sys._current_frames().values():
        of_thread: list[list[Root]] = []
        values: dict[str, Any] = {}
        while frame is not None:
            code = frame.f_code
            is_wanted = is_users(code.co_filename) == are_users and not is_ours(code.co_filename)
            # A module's own are there already; what exec() runs may have variables of its own.
            is_wanted = is_wanted and (code.co_name != "<module>" or id(frame.f_globals) not in namespaces)
            values = variables(frame, callee=values) if is_wanted else {}
            of_thread.append(
                [
                    Root("variable", name, value, code.co_filename, code.co_name, are_users)
                    for name, value in values.items()
                    if not name.startswith("__") and not issubclass(type(value), _PLAIN)
                ]
            )
            frame = frame.f_back
        for roots in reversed(of_thread):
            found += roots
    return found

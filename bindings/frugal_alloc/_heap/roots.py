"""Where a program's names are: its modules, the functions that run, and what is set for the context; and where a walk
begins to what no name reaches."""

from __future__ import annotations

import collections
import contextvars
import gc
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._program.frame_variables import variables
from .._program.users_code import is_ours, is_users
from . import live_tensors, raw_objects
from .live_tensors import Extents

# They name nothing but themselves.
_PLAIN = (types.ModuleType, str, bytes, int, float, bool, type(None))

#: Functions that wait, with what the names of their attributes begin with.
WAITING = {types.GeneratorType: "gi", types.CoroutineType: "cr", types.AsyncGeneratorType: "ag"}

# Of those that no name reaches, enough to find all that hold them alike; and from a tensor to what nothing refers to.
MOST_TENSORS = 2_000
MOST_LEVELS = 6
_CONTAINERS = (list, tuple, set, frozenset, dict, types.CellType)

# So many names that differ by a number are one thing in several parts.
LEAST_SERIES = 4


class Root(NamedTuple):
    """A name, and what it refers to."""

    kind: str  # "variable", of a module or of a function that runs; "context variable", "generator", "object"
    name: str
    value: Any
    file: str | None
    function: str  # "<module>": of a module
    is_users: bool


def of_program() -> tuple[list[Root], list[Root]]:
    """What the program's own code calls by a name; and apart, names of a series, as a notebook gives them to all values
    that it shows: what these hold is rather another's, such as its ``Out``.

    Modules come first: what they hold stays. Then functions, the outermost first, since what an inner one was handed
    is another's.
    """
    context = contextvars.copy_context().items()
    alone: list[Root] = []
    in_series: list[Root] = []
    of_modules = list(_of_modules(are_users=True))
    sizes = collections.Counter((root.file, stem_of(root.name)) for root in of_modules)
    for root in of_modules:
        (in_series if sizes[root.file, stem_of(root.name)] >= LEAST_SERIES else alone).append(root)
    return [
        *alone,
        *_of_frames(are_users=True),
        *(Root("context variable", variable.name, value, None, "", True) for variable, value in context),
    ], in_series


def stem_of(name: str) -> str:
    """What the names of a series have in common: "result_#" of "result_12". A notebook's latest value, "_", is
    among its "_12"."""
    return re.sub(r"\d+$", "#", name) if name.strip("_") else "_#"


def of_libraries() -> list[Root]:
    """What libraries call by a name, and functions that wait: generators and coroutines."""
    # A class may have a comparison of its own.
    waiting = set(map(id, WAITING))
    generators = []
    for value in gc.get_objects():
        if id(type(value)) in waiting:
            code = code_of_waiting(value)
            generators.append(Root("generator", code.co_name, value, code.co_filename, "", is_users(code.co_filename)))
    return [*_of_frames(are_users=False), *generators, *_of_modules(are_users=False)]


def code_of_waiting(generator: Any) -> types.CodeType:
    """The code of a generator or coroutine."""
    return getattr(generator, f"{WAITING[type(generator)]}_code")


def frame_of_waiting(generator: Any) -> types.FrameType | None:
    """Its frame; None: it has ended."""
    return getattr(generator, f"{WAITING[type(generator)]}_frame")


def _modules() -> list[types.ModuleType]:
    return [module for module in list(sys.modules.values()) if issubclass(type(module), types.ModuleType)]


def _of_modules(are_users: bool) -> Iterator[Root]:
    """The variables of the program's modules, or of those of libraries."""
    for module in _modules():
        namespace = raw_objects.dictionary_of(module) or {}
        file = namespace.get("__file__")
        file = file if isinstance(file, str) else None
        is_programs = namespace.get("__name__") == "__main__" or is_users(file)
        if is_programs == are_users and not is_ours(file):
            yield from _named(raw_objects.items_of(namespace), file, "<module>", are_users)


def _named(variables: Iterable[tuple[Any, Any]], file: str | None, function: str, are_users: bool) -> list[Root]:
    """Private names last: a notebook's "_oh" is its "Out"."""
    found = [
        Root("variable", name, value, file, function, are_users)
        for name, value in variables
        if isinstance(name, str) and not name.startswith("__") and not issubclass(type(value), _PLAIN)
    ]
    return sorted(found, key=lambda root: root.name.startswith("_"))


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
            of_thread.append(_named(values.items(), code.co_filename, code.co_name, are_users))
            frame = frame.f_back
        for roots in reversed(of_thread):
            found += roots
    return found


def of_orphans(extents: Extents, reached: list[Any], ours: Iterable[Any]) -> list[Root]:
    """The outermost objects that lead to leaked tensors that no name reaches: objects that only C++ refers to, or that
    refer only to each other.

    Args:
        extents: Of the leaks.
        reached: All that names reach.
        ours: What else refers to tensors for the search's sake.

    Returns:
        A root of the kind "object" for each, by the name of its class.
    """
    known = set(map(id, reached))
    objects = gc.get_objects()
    level: list[Any] = [
        value
        for value in objects
        if live_tensors.is_tensor(value) and id(value) not in known and extents.at(live_tensors.address_of(value))
    ][:MOST_TENSORS]
    leave_out = {id(objects), id(known), id(reached), *map(id, ours), *map(id, level)}
    orphans: list[Any] = []
    for _ in range(MOST_LEVELS):
        leave_out.add(id(level))
        referrers = [value for value in gc.get_referrers(*level) if _may_hold(value, leave_out)] if level else []
        leave_out.update((id(referrers), *map(id, referrers)))
        # What has a class of its own says who holds.
        orphans += [value for value in referrers if not issubclass(type(value), _CONTAINERS)]
        level = [value for value in referrers if issubclass(type(value), _CONTAINERS)]
    return [
        Root("object", raw_objects.name_of(kind), value, raw_objects.file_of_class(kind), "", False)
        for value in orphans
        for kind in (type(value),)
    ]


def _may_hold(value: Any, leave_out: set[int]) -> bool:
    return id(value) not in leave_out and not issubclass(type(value), (types.FrameType, types.ModuleType))

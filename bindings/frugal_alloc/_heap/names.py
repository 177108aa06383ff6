"""By which name a program reaches what holds memory: the way from one object to the next, and that in words."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

from .._program import source
from .._program.frame_variables import variables
from .._program.users_code import is_users
from . import live_tensors, raw_objects, roots
from .raw_objects import CACHE, file_of_class, is_users_class
from .reach import Reach

# They have no names for their parts: what comes after them tells.
_PASSED_BY = (types.FunctionType, types.TracebackType, types.MethodType)
# The dictionaries in which a module keeps its parts.
_PARTS_OF_MODULES = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}


class Link(NamedTuple):
    """A step on the way. Several objects may be passed with it, such as an object's dictionary."""

    kind: str
    name: str  # "" where it has none: an item of a list
    holder: str  # the class or function that has it
    file: str | None = None
    line: int | None = None
    is_users: bool = False  # the name stands in the program's own code
    index: int = 0  # in the path: of the object that it leads to
    value: Any = None  # that object


# Kinds that are names; "key" and "item" are only places in what has a name.
NAMED = ("variable", "context variable", "generator", "attribute", "class attribute", "parameter", "buffer", "closure")
NAMED += ("default", "local", "exception", "cache", "gradient", "hooks", "context")


def _links(reach: Reach, path: list[int]) -> list[Link]:
    """The links of a path, the root's first."""
    root = reach.root_of(path[0])
    objects = [reach.objects[number] for number in path]
    found: list[Link | None] = [Link(root.kind, root.name, root.function, root.file, None, root.is_users)]
    found += [_link(objects, index) for index in range(1, len(objects))]
    return [link._replace(index=index, value=objects[index]) for index, link in enumerate(found) if link is not None]


def _link(objects: list[Any], index: int) -> Link | None:
    """How objects[index - 1] refers to objects[index]; None: the next one tells."""
    parent, child = objects[index - 1], objects[index]
    kind = type(parent)
    above = objects[index - 2] if index > 1 else None
    if _is_among(kind, _PASSED_BY) or issubclass(kind, type):
        return None
    if type(above) is types.FunctionType:
        return _in_function(above, parent, child)
    if kind is types.CellType:
        return _in_cell(objects, index)
    if kind is types.FrameType:
        return _in_frame(parent, child, objects[:index])
    if _is_among(kind, roots.WAITING):
        return _in_waiting(parent, child)
    if issubclass(type(above), type) and kind is dict:
        name = raw_objects.key_holding(raw_objects.namespace_of(above), child)
        return _of_class("class attribute", str(name or ""), above)
    if kind is CACHE:
        return _in_cache(parent)
    if issubclass(kind, dict):
        return _in_dictionary(objects, index)
    if _is_among(kind, (list, tuple, set, frozenset)):
        return Link("item", "", kind.__name__)
    return _in_object(parent, child)


def _is_among(kind: type, kinds: Iterable[type]) -> bool:
    """Without a comparison of the class's own."""
    return any(kind is other for other in kinds)


def _of_code(kind: str, name: str, code: types.CodeType, function: str = "") -> Link:
    """A name in a function, given by another name than its code's where it has one."""
    holder = f"{function or code.co_name}()"
    return Link(kind, name, holder, code.co_filename, code.co_firstlineno, is_users(code.co_filename))


def _of_class(kind: str, name: str, owner: type) -> Link:
    return Link(kind, name, raw_objects.name_of(owner), file_of_class(owner), None, is_users_class(owner))


def _name_among(named: dict[str, Any], value: Any) -> str:
    return str(raw_objects.key_holding(named, value) or "")


def _in_function(function: types.FunctionType, parts: Any, child: Any) -> Link | None:
    code = function.__code__
    if parts is function.__closure__:
        return None
    kind = "default" if parts is function.__defaults__ or parts is function.__kwdefaults__ else "attribute"
    if parts is function.__defaults__:
        parts = dict(zip(code.co_varnames[: code.co_argcount][-len(parts) :], parts, strict=False))
    name = _name_among(parts, child) if isinstance(parts, dict) else ""
    return _of_code(kind, name, code, function.__name__)


def _in_cell(objects: list[Any], index: int) -> Link:
    """The cell of a closure: the function that has it is two before it."""
    function = objects[index - 3] if index > 2 else None
    if type(function) is not types.FunctionType:
        return Link("item", "", "cell")
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    name = _name_among(cells, objects[index - 1])
    return _of_code("closure", name, function.__code__, function.__name__)


def _in_frame(frame: types.FrameType, child: Any, way: list[Any]) -> Link | None:
    if child is frame.f_back:
        return None
    is_exceptions = any(type(passed) is types.TracebackType for passed in way)
    return _of_code("exception" if is_exceptions else "local", _name_among(variables(frame), child), frame.f_code)


def _in_waiting(generator: Any, child: Any) -> Link | None:
    if type(child) is types.FrameType:
        return None
    frame = roots.frame_of_waiting(generator)
    code = roots.code_of_waiting(generator)
    name = _name_among(variables(frame), child) if frame is not None else ""
    # Else its function, or what waits on its stack.
    return _of_code("local", name, code) if name else Link("item", "", f"{code.co_name}()")


def _in_cache(wrapper: Any) -> Link:
    function = (raw_objects.dictionary_of(wrapper) or {}).get("__wrapped__")
    code = getattr(function, "__code__", None) if type(function) is types.FunctionType else None
    return Link("cache", "", "") if code is None else _of_code("cache", code.co_name, code)


def _in_dictionary(objects: list[Any], index: int) -> Link | None:
    mapping, child = objects[index - 1], objects[index]
    key = raw_objects.key_holding(mapping, child)
    above = objects[index - 2] if index > 1 else None
    owner, part = _owner_of_parts(objects, index - 1)
    if part is not None:
        return _attribute(owner, part, str(key))
    if above is not None and type(mapping) is dict and raw_objects.dictionary_of(above) is mapping:
        return _attribute(above, "attribute", str(key))
    if type(above) is CACHE:
        return Link("item", "", "cache")
    if key is None and (name := raw_objects.attribute_holding(mapping, child)) is not None:
        return _attribute(mapping, "attribute", name)
    return Link("key", key if isinstance(key, str) else "", type(mapping).__name__)


def _owner_of_parts(objects: list[Any], index: int) -> tuple[Any, str | None]:
    """The module whose dictionary of parts objects[index] is, and what these are."""
    owner = next((one for one in reversed(objects[max(0, index - 2) : index]) if type(one) is not dict), None)
    attributes = raw_objects.dictionary_of(owner) or {}
    parts = (part for name, part in _PARTS_OF_MODULES.items() if attributes.get(name) is objects[index])
    return owner, next(parts, None)


def _in_object(parent: Any, child: Any) -> Link | None:
    if raw_objects.dictionary_of(parent) is child:
        return None
    holder = raw_objects.name_of(type(parent))
    if live_tensors.is_tensor(parent):
        if live_tensors.is_tensor(child) and live_tensors.gradient_of(parent) is child:
            return Link("gradient", "grad", holder)
        if getattr(parent, "_backward_hooks", None) is child:
            return Link("hooks", "_backward_hooks", holder)
    name = raw_objects.attribute_holding(parent, child)
    return Link("item", "", holder) if name is None else _attribute(parent, "attribute", name)


def _attribute(owner: Any, kind: str, name: str) -> Link | None:
    # What is in it says more.
    if kind == "attribute" and name in _PARTS_OF_MODULES:
        return None
    if live_tensors.is_context(owner):
        return _in_context(owner, name)
    if kind == "attribute" and name.endswith("_hooks"):
        kind = "hooks"
    return _of_class(kind, name, type(owner))


def _in_context(context: Any, name: str) -> Link:
    """An attribute that a function of autograd's has set on its ctx."""
    function = raw_objects.namespace_of(type(context)).get("_forward_cls")
    if isinstance(function, type):
        return _of_class("context", name, function)
    return Link("context", name, raw_objects.name_of(type(context)).removesuffix("Backward"))


class Name(NamedTuple):
    """Of a holder, in words, and where it is assigned if that can be known."""

    kind: str  # of the link that names it: "variable", "attribute", "closure" ...; "exception", "hooks": the way's
    what: str  # "list 'losses'", "list 'history' of Trainer"
    name: str  # as the program may write it: "losses", "self.history", "states['hidden']"
    holder: str  # the class or function that has it: "list", "Trainer"
    file: str | None
    line: int | None
    through: str = ""  # "parameter 'weight' of Linear": the way from there to the tensors, where it has names
    collection: str = ""  # the class of what gathers: "list", "dict"; "tensor"
    is_librarys: bool = False  # the program's own code has no name for it
    function: str = ""  # that it is a variable of, or "<module>"
    is_through_context: bool = False  # the ctx of an autograd.Function has it, which is in the graph of a result


def name_of(reach: Reach, number: int, example: int) -> Name | None:
    """The name of an object that gathers tensors.

    It is the nearest one that the program's own code has for it; what is between that and the tensors is told besides.
    None: the program has no name for it, nor has a library.

    Args:
        reach: The walk that has reached it.
        number: The object.
        example: The number of a tensor below it.
    """
    path = reach.path_to(example)
    gatherer = path.index(number)
    way = _links(reach, path)
    # A cached function has its entries itself.
    above = [link for link in way if link.index <= gatherer + (link.kind == "cache")]
    named = [link for link in above if link.kind in NAMED and link.name]
    base = next((link for link in reversed(named) if link.is_users), named[0] if named else None)
    if base is None:
        return None
    between = [link for link in above if link.index > base.index]
    below = way[len(above) :]
    collection = _kind_of(reach.objects[number])
    what, is_reached = _gatherer_in_words(base, between, collection)
    ways = [] if is_reached else [link for link in between if link.kind in NAMED][-1:]
    ways = ways or [link for link in below if link.kind in NAMED and link.kind != "gradient"][:1]
    kinds = {link.kind for link in (base, *between, *below)}
    name = f"self.{base.name}" if base.kind in ("attribute", "buffer") else base.name
    name += "".join(f"[{link.name!r}]" if link.name else "[...]" for link in between if link.kind in ("key", "item"))
    holder = base.holder if base.kind in ("attribute", "buffer", "class attribute") else _kind_of(base.value)
    classes = [link.holder for link in between if link.kind == "attribute"]
    return Name(
        next((kind for kind in ("exception", "hooks") if kind in kinds), base.kind),
        what,
        name,
        (classes or [holder])[-1],
        *_place(base, reach),
        _in_words(ways[0]) if ways else "",
        collection,
        is_librarys=not base.is_users,
        function=base.holder if base.kind == "variable" else "",
        is_through_context="context" in kinds,
    )


def series_among(names: Iterable[Name]) -> dict[Name, Name]:
    """Of variables of a module that differ by a number, as "result_7" and "result_12", the name of all of them."""
    series: dict[tuple[str | None, str], list[Name]] = {}
    for name in names:
        if name.kind == "variable" and name.function == "<module>":
            series.setdefault((name.file, roots.stem_of(_variable_of(name))), []).append(name)
    found = {}
    for members in series.values():
        variables = sorted({_variable_of(name) for name in members}, key=lambda variable: (len(variable), variable))
        if len(variables) >= roots.LEAST_SERIES:
            first, second = variables[:2]
            what = f"series of variables '{first}', '{second}', ..."
            found |= dict.fromkeys(members, members[0]._replace(what=what, name=first, collection="series", through=""))
    return found


def _variable_of(name: Name) -> str:
    return name.name.partition("[")[0]


# What a link of a kind leads to; {kind} is the class of that.
_WORDS = {
    "parameter": "parameter '{name}' of {holder}",
    "buffer": "buffer '{name}' of {holder}",
    "attribute": "{kind} '{name}' of {holder}",
    "class attribute": "{kind} '{name}' of class {holder}",
    "closure": "{kind} '{name}' in the closure of {holder}",
    "default": "{kind} '{name}', a default argument of {holder}",
    "exception": "variable '{name}' of {holder}, which an exception keeps",
    "local": "variable '{name}' of {holder}",
    "cache": "cache of {holder}",
    "context": "ctx.{name} of {holder}",
    "gradient": "gradient of {holder}",
    "hooks": "{hooks} of {holder}",
    "generator": "generator {name}()",
    "context variable": "{kind} of the context variable '{name}'",
    "variable": "{kind} '{name}'",
}


def _gatherer_in_words(base: Link, between: list[Link], kind: str) -> tuple[str, bool]:
    """What gathers, a `kind`, in words; and whether these reach it: else the way from there to it is to be told."""
    if not between:
        return _in_words(base), True
    last = between[-1]
    if all(link.kind in ("key", "item") for link in between):
        key = f" '{last.name}'" if last.name else ""
        return f"{kind}{key} in {_in_words(base)}", True
    is_part = last.kind in ("attribute", "parameter", "buffer", "hooks") and len(between) == 1
    if is_part and base.kind in ("variable", "context variable"):
        return f"{_in_words(last)} '{base.name}'", True
    return _in_words(base), False


def _in_words(link: Link) -> str:
    """What a link leads to."""
    hooks = link.name.strip("_").replace("_", " ")
    words = _WORDS[link.kind].format(kind=_kind_of(link.value), name=link.name, holder=link.holder, hooks=hooks)
    if link.kind == "variable" and not link.is_users and link.file:
        words += f" of {os.path.basename(link.file) if link.holder == '<module>' else f'{link.holder}()'}"
    return words


def _place(base: Link, reach: Reach) -> tuple[str | None, int | None]:
    """Where the program assigns the name."""
    file = base.file
    if not file or not base.is_users:
        return None, None
    if base.kind == "variable":
        return _place_of_variable(base, reach)
    if base.kind in ("attribute", "class attribute", "parameter", "buffer", "context"):
        return file, source.line_of_attribute(file, base.holder, base.name)
    if base.kind in ("local", "exception"):
        return file, source.line_of_name(file, base.holder.removesuffix("()"), base.name)
    return file, base.line


def _place_of_variable(base: Link, reach: Reach) -> tuple[str | None, int | None]:
    line = source.line_of_name(base.file or "", base.holder, base.name)
    if line is not None:
        return base.file, line
    # It was imported, or handed over as an argument: another variable may say where it is made.
    for root in reach.roots:
        if root.value is base.value and root.is_users and root.file and root.kind == "variable":
            line = source.line_of_name(root.file, root.function, root.name)
            if line is not None:
                return root.file, line
    return base.file, None


def _kind_of(value: Any) -> str:
    return "tensor" if live_tensors.is_tensor(value) else raw_objects.name_of(type(value))

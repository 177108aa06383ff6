"""How one object on the way to another refers to the next: by which variable, attribute, key or argument."""

from __future__ import annotations

import functools
import types
from typing import Any, NamedTuple

from .._program.frame_variables import variables
from .._program.users_code import is_users
from . import live_tensors, raw_objects, roots
from .reach import Reach
from .roots import Root
from .whose import file_of_class, is_users_class

_CACHE = type(functools.lru_cache(maxsize=None)(len))
_WAITING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
# The dictionaries in which a module keeps its parts.
_PARTS_OF_MODULES = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}


class Link(NamedTuple):
    """A step on the way. Several objects may be passed with it, such as an object's dictionary."""

    kind: str
    name: str  # "" where it has none: an item of a list
    holder: str  # the class or function that has it
    file: str | None
    line: int | None
    is_users: bool  # the name stands in the program's own code
    index: int  # in the path: of the object that it leads to


# Kinds that are names; "key" and "item" are only places in what has a name.
NAMED = ("variable", "context variable", "generator", "attribute", "class attribute", "parameter", "buffer", "closure")
NAMED += ("default", "local", "exception", "cache", "gradient", "hooks", "context")


def links(reach: Reach, path: list[int]) -> list[Link]:
    """The links of a path, the root's first."""
    root = reach.root_of(path[0])
    found = [_root_link(root)]
    objects = [reach.objects[number] for number in path]
    for index in range(1, len(objects)):
        link = _link(objects, index)
        if link is not None:
            found.append(link)
    return found


def _root_link(root: Root) -> Link:
    return Link(root.kind, root.name, root.function, root.file, None, root.is_users, 0)


def _link(objects: list[Any], index: int) -> Link | None:
    """How objects[index - 1] refers to objects[index]; None: the next one tells."""
    parent, child = objects[index - 1], objects[index]
    kind = type(parent)
    above = objects[index - 2] if index > 1 else None
    if kind is types.FunctionType:
        return None
    if type(above) is types.FunctionType:
        return _of_function(above, parent, child, index)
    if kind is types.CellType:
        return _of_cell(objects, index)
    if kind is types.FrameType:
        return _of_frame(parent, child, index, objects)
    if kind in _WAITING:
        return _of_waiting(parent, child, index)
    if kind is types.TracebackType or kind is types.MethodType:
        return None
    if issubclass(kind, type):
        return None
    if issubclass(type(above), type) and kind is dict:
        return _of_class(above, child, index)
    if kind is _CACHE:
        return _of_cache(parent, index)
    if issubclass(kind, dict):
        return _of_dictionary(objects, index)
    if kind in (list, tuple, set, frozenset):
        return Link("item", "", kind.__name__, None, None, False, index)
    return _of_object(parent, child, index)


def _of_function(function: types.FunctionType, parts: Any, child: Any, index: int) -> Link | None:
    code = function.__code__
    place = (code.co_filename, code.co_firstlineno, is_users(code.co_filename), index)
    if parts is function.__closure__:
        return None
    if parts is function.__kwdefaults__:
        return Link("default", str(raw_objects.key_holding(parts, child)), f"{function.__name__}()", *place)
    if parts is function.__defaults__:
        arguments = code.co_varnames[: code.co_argcount][-len(parts) :]
        name = next((name for name, value in zip(arguments, parts, strict=False) if value is child), "")
        return Link("default", name, f"{function.__name__}()", *place)
    name = raw_objects.key_holding(parts, child) if isinstance(parts, dict) else None
    return Link("attribute", str(name or ""), f"{function.__name__}()", *place)


def _of_cell(objects: list[Any], index: int) -> Link:
    """The cell of a closure: the function that has it is two before it."""
    function = objects[index - 3] if index > 2 else None
    cell = objects[index - 1]
    if type(function) is types.FunctionType:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
        name = next((name for name, one in cells if one is cell), "")
        users = is_users(code.co_filename)
        return Link("closure", name, f"{function.__name__}()", code.co_filename, code.co_firstlineno, users, index)
    return Link("item", "", "cell", None, None, False, index)


def _of_frame(frame: types.FrameType, child: Any, index: int, objects: list[Any]) -> Link | None:
    if child is frame.f_back:
        return None
    code = frame.f_code
    name = next((name for name, value in variables(frame).items() if value is child), "")
    is_exceptions = any(type(one) is types.TracebackType for one in objects[:index])
    kind = "exception" if is_exceptions else "local"
    return Link(kind, name, f"{code.co_name}()", code.co_filename, None, is_users(code.co_filename), index)


def _of_waiting(generator: Any, child: Any, index: int) -> Link | None:
    if type(child) is types.FrameType:
        return None
    frame = roots.frame_of_waiting(generator)
    code = roots.code_of_waiting(generator)
    values = variables(frame) if frame is not None else {}
    name = next((name for name, value in values.items() if value is child), "")
    if not name:
        # Its function, or what waits on its stack.
        return Link("item", "", f"{code.co_name}()", None, None, False, index)
    return Link("local", name, f"{code.co_name}()", code.co_filename, None, is_users(code.co_filename), index)


def _of_class(kind: type, child: Any, index: int) -> Link:
    name = raw_objects.key_holding(raw_objects.namespace_of(kind), child)
    users = is_users_class(kind)
    holder = raw_objects.name_of(kind)
    return Link("class attribute", str(name or ""), holder, file_of_class(kind), None, users, index)


def _of_cache(wrapper: Any, index: int) -> Link:
    function = (raw_objects.dictionary_of(wrapper) or {}).get("__wrapped__")
    code = getattr(function, "__code__", None) if type(function) is types.FunctionType else None
    if code is None:
        return Link("cache", "", "", None, None, False, index)
    users = is_users(code.co_filename)
    return Link("cache", code.co_name, f"{code.co_name}()", code.co_filename, code.co_firstlineno, users, index)


def _of_dictionary(objects: list[Any], index: int) -> Link | None:
    mapping, child = objects[index - 1], objects[index]
    key = raw_objects.key_holding(mapping, child)
    above = objects[index - 2] if index > 1 else None
    owner, part = _owner_of_parts(objects, index - 1)
    if part is not None:
        return _attribute(owner, part, str(key), index)
    if above is not None and type(mapping) is dict and raw_objects.dictionary_of(above) is mapping:
        return _attribute(above, "attribute", str(key), index)
    if type(above) is _CACHE:
        return Link("item", "", "cache", None, None, False, index)
    if key is None and (name := raw_objects.attribute_holding(mapping, child)) is not None:
        return _attribute(mapping, "attribute", name, index)
    return Link("key", key if isinstance(key, str) else "", type(mapping).__name__, None, None, False, index)


def _owner_of_parts(objects: list[Any], index: int) -> tuple[Any, str | None]:
    """The module whose dictionary of parts objects[index] is, and what these are."""
    for above in (index - 1, index - 2):
        if above >= 0 and type(objects[above]) is not dict:
            attributes = raw_objects.dictionary_of(objects[above]) or {}
            for name, part in _PARTS_OF_MODULES.items():
                if attributes.get(name) is objects[index]:
                    return objects[above], part
            break
    return None, None


def _of_object(parent: Any, child: Any, index: int) -> Link | None:
    if raw_objects.dictionary_of(parent) is child:
        return None
    if live_tensors.is_tensor(parent):
        if live_tensors.is_tensor(child) and live_tensors.gradient_of(parent) is child:
            return Link("gradient", "grad", _class_of(parent), None, None, False, index)
        if getattr(parent, "_backward_hooks", None) is child:
            return Link("hooks", "_backward_hooks", _class_of(parent), None, None, False, index)
    name = raw_objects.attribute_holding(parent, child)
    if name is None:
        return Link("item", "", _class_of(parent), None, None, False, index)
    return _attribute(parent, "attribute", name, index)


def _of_context(context: Any, name: str, index: int) -> Link:
    """An attribute that a function of autograd's has set on its ctx."""
    function = raw_objects.namespace_of(type(context)).get("_forward_cls")
    if not isinstance(function, type):
        return Link("context", name, _class_of(context).removesuffix("Backward"), None, None, False, index)
    users, file = is_users_class(function), file_of_class(function)
    return Link("context", name, raw_objects.name_of(function), file, None, users, index)


def _attribute(owner: Any, kind: str, name: str, index: int) -> Link | None:
    # What is in it says more.
    if kind == "attribute" and name in _PARTS_OF_MODULES:
        return None
    if live_tensors.is_context(owner):
        return _of_context(owner, name, index)
    if kind == "attribute" and name.endswith("_hooks"):
        kind = "hooks"
    users = is_users_class(type(owner))
    return Link(kind, name, _class_of(owner), file_of_class(type(owner)), None, users, index)


def _class_of(value: Any) -> str:
    return raw_objects.name_of(type(value))

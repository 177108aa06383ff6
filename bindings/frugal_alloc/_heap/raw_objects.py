"""Reads objects as they are: no property, no ``__getattr__`` and no other code of their classes runs."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from .._program import users_code

#: The class of what functools.lru_cache makes.
CACHE = type(functools.lru_cache(maxsize=None)(len))


def imported(module: str, name: str) -> Any:
    """A class of a module's, which is not imported for that; None: it is not there."""
    return getattr(sys.modules.get(module), name, None)


mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__


def dictionary_of(instance: Any) -> dict[str, Any] | None:
    """The dictionary of an object's attributes; None: it has none."""
    for base in mro_of(type(instance)):
        descriptor = _namespace_of(base).get("__dict__")
        # Modules have it as a member.
        if type(descriptor) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            try:
                found = descriptor.__get__(instance)
            except (AttributeError, TypeError):
                return None
            return found if isinstance(found, dict) else None
        # A property of that name would run.
        if descriptor is not None:
            return None
    return None


def namespace_of(kind: type) -> dict[str, Any]:
    """A copy of the attributes of a class."""
    return dict(_namespace_of(kind))


def text_of(kind: type, attribute: str) -> str:
    """An attribute of a class that is a text, such as ``__module__``; "" where it is none."""
    value = _namespace_of(kind).get(attribute)
    return value if isinstance(value, str) else ""


def name_of(kind: type) -> str:
    return type.__dict__["__name__"].__get__(kind)


def items_of(mapping: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """A copy, made in one go: other threads may change the dictionary."""
    return list(dict.items(mapping))


def slots_of(instance: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that lie in ``__slots__`` and have a value."""
    for base in mro_of(type(instance)):
        for name, descriptor in items_of(dict(_namespace_of(base))):
            if type(descriptor) is types.MemberDescriptorType:
                try:
                    yield name, descriptor.__get__(instance)
                except (AttributeError, TypeError):
                    continue


def attribute_holding(instance: Any, value: Any) -> str | None:
    """By which attribute an object refers to a value; None: by none."""
    attributes = dictionary_of(instance)
    for name, held in items_of(attributes) if attributes is not None else ():
        if held is value and isinstance(name, str):
            return name
    return next((name for name, held in slots_of(instance) if held is value), None)


def key_holding(mapping: dict[Any, Any], value: Any) -> Any:
    """The key of a value; None: it has none, or is a key."""
    return next((key for key, held in items_of(mapping) if held is value), None)


def file_of_class(kind: type) -> str | None:
    """The file of the module that a class was made in; None where that is not known."""
    module = sys.modules.get(text_of(kind, "__module__"))
    namespace = dictionary_of(module) if module is not None else None
    file = namespace.get("__file__") if namespace else None
    return file if isinstance(file, str) else None


def is_users_class(kind: type) -> bool:
    """Whether a class is the program's own: one of a notebook's, or of `python -c`, has no file."""
    return text_of(kind, "__module__") == "__main__" or users_code.is_users(file_of_class(kind))

"""Reads parsed JSON that nobody vouches for, by the annotations of a dataclass: they alone say what it must be.

``int``, ``float``, ``str``, ``bool``: just that; true is no number, and numbers are finite and below 2**63.
``T | None``: also null. ``tuple[T, ...]``: a list. ``Mapping[str, T]``, ``Mapping[int, T]``: an object.
``tuple[A, B]``, a NamedTuple: a list that begins so; the last ones with a default may lack.
A dataclass: an object; a key with a default may be missing or null, and keys that are not known do no harm.
``Annotated[T, f]``: what ``f`` makes of a T, such as :func:`between` of a number.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import itertools
import json
import re
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")
_Check = Callable[[Any], Any]
_MOST_NUMBER = 1 << 63  # what C++ can hold
_MOST_SHOWN, _MOST_BITS_SHOWN = 40, 128
_WHOLE = re.compile("-?[0-9]{1,18}")


class Misshapen(ValueError):
    """A value has another shape than is wanted; the message is one line that names the path to it."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path.removeprefix('.')}: {reason}" if path else reason)
        self._reason, self._path = reason, path

    def below(self, part: str) -> Misshapen:
        return Misshapen(self._reason, part + self._path)


def read(shape: type[_T], value: Any, plain: bool = False) -> _T:
    """The dataclass that the value is; a `plain` one stays dicts and lists, with the keys that are not known.

    Raises:
        Misshapen: it is none.
    """
    return _check_of(shape, plain)(value)


def between(least: int, most: int = _MOST_NUMBER - 1) -> _Check:
    """For numbers."""
    wanted = f"a number from {least} {'on' if most == _MOST_NUMBER - 1 else f'to {most}'}"
    return lambda value: value if least <= value <= most else _refuse(value, wanted)


def at_most(count: int) -> _Check:
    """For lists."""
    return lambda value: value if len(value) <= count else _refuse(value, f"a list of at most {count} values")


def among(names: Collection[str]) -> _Check:
    """For texts."""
    wanted = f"one of {', '.join(names)}"
    return lambda value: value if value in names else _refuse(value, wanted)


def shown(value: Any) -> str:
    """The value in a message: short and printable, whatever it is."""
    if isinstance(value, (dict, list, tuple)):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    if isinstance(value, str):
        return json.dumps(value[:_MOST_SHOWN]) + ("..." if len(value) > _MOST_SHOWN else "")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS_SHOWN:
        return f"a number of {value.bit_length()} bits"
    return json.dumps(value, default=lambda other: type(other).__name__)


def _refuse(value: Any, wanted: str) -> Any:
    raise Misshapen(f"{wanted} is wanted, not {shown(value)}")


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        _refuse(value, "a number")
    return value if abs(value) < _MOST_NUMBER else _refuse(value, "a number below 2**63")


def _integer(value: Any) -> int:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(_number(value)) if is_whole else _refuse(value, "a whole number")


def _of_type(kind: type, wanted: str) -> _Check:
    return lambda value: value if isinstance(value, kind) else _refuse(value, wanted)


_object = _of_type(dict, "an object")
_SCALARS: dict[Any, _Check] = {
    int: _integer,
    float: _number,
    str: _of_type(str, "a text"),
    bool: _of_type(bool, "true or false"),
}


@functools.cache
def _check_of(kind: Any, plain: bool) -> _Check:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if dataclasses.is_dataclass(kind):
        return _check_of_fields(kind, plain)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        inner, change = _check_of(parts[0], plain), parts[1]
        return lambda value: change(inner(value))
    make: Callable[[list], Any] = list if plain else tuple
    if is_named := hasattr(kind, "_fields"):
        origin, make = tuple, lambda elements: kind(*elements)
        parts = tuple(typing.get_type_hints(kind, include_extras=True).values())
    checks: Any = [_check_of(part, plain) for part in parts if part not in (Ellipsis, type(None))]
    least = len(checks) - (len(kind._field_defaults) if is_named else 0)
    if parts[-1] is Ellipsis:
        checks, least = itertools.repeat(checks[0]), 0
    if origin is tuple:
        return lambda value: make(_checked(checks, _list(value, least)))
    if origin is collections.abc.Mapping:
        return functools.partial(_mapping, parts[0], checks[1])
    return lambda value: None if value is None else checks[0](value)


def _list(value: Any, least: int) -> Sequence[Any]:
    # Defaults are tuples.
    if not isinstance(value, (list, tuple)) or len(value) < least:
        _refuse(value, f"a list of {least} values" if least else "a list")
    return value


def _mapping(kind: type, check: _Check, value: Any) -> dict[Any, Any]:
    keys = list(_object(value))
    formed = _checked(itertools.repeat(check), value.values(), lambda number: f"[{shown(keys[number])}]")
    if kind is int:
        keys = [int(key) if _WHOLE.fullmatch(key) else _refuse(key, "a whole number for a key") for key in keys]
    return dict(zip(keys, formed, strict=True))


def _check_of_fields(kind: type, plain: bool) -> _Check:
    hints, fields = typing.get_type_hints(kind, include_extras=True), dataclasses.fields(kind)
    names = [field.name for field in fields]
    required = [field.name for field in fields if field.default is dataclasses.MISSING]
    checks = [_with_default(_check_of(hints[field.name], plain), field.default) for field in fields]

    def check(value: Any) -> Any:
        for name in required:
            if name not in _object(value):
                raise Misshapen(f"{name} is missing")
        formed = _checked(checks, map(_object(value).get, names), lambda number: f".{names[number]}")
        by_name = dict(zip(names, formed, strict=True))
        return value | by_name if plain else kind(**by_name)

    return check


def _with_default(check: _Check, default: Any) -> _Check:
    if default is dataclasses.MISSING:
        return check
    in_json = dataclasses.asdict(default) if dataclasses.is_dataclass(default) else default
    return lambda value: check(in_json if value is None else value)


def _checked(checks: Iterable[_Check], values: Iterable[Any], place: Callable[[int], str] = "[{}]".format) -> list[Any]:
    """What the checks make of the values; `place`: how a path says the place of the value with that number."""
    formed: list[Any] = []
    try:
        for check, value in zip(checks, values, strict=False):
            formed.append(check(value))
    except Misshapen as error:
        raise error.below(place(len(formed))) from None
    return formed

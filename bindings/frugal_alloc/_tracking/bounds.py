"""How many entries a collection may have: a cache that fills up to a bound is no leak, if all of it fits."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._heap import raw_objects
from .._heap.names import Name
from . import code_bounds

# Under which programs and libraries keep the most that a collection may have. Not max_len or max_steps, which are as
# often something else's.
_NAMES = re.compile(r"max_?size|maxlen|capacity|max_(entries|items)|(max_)?(cache|buffer|memory|queue|history)_size")
# What cachetools has beside it: the sum of what its entries count for, bytes maybe.
_COUNTED = "currsize"


class Bound(NamedTuple):
    """What a collection has, and what it may have at most."""

    name: str  # by which the program sets it: "maxsize"
    entries: int
    counted: int  # in the unit of `most`: entries as a rule, bytes maybe
    most: int

    @property
    def entries_to_come(self) -> int:
        """Until it is full, if they count for as much as those that it has."""
        return self.entries * (self.most - self.counted) // self.counted

    @staticmethod
    def together(bounds: Sequence[Bound | None]) -> Bound | None:
        """Of several collections of one name; None: one of them has none."""
        if not bounds or None in bounds:
            return None
        names, *figures = zip(*bounds, strict=True)
        return Bound(names[0], *map(sum, figures))


def of(value: Any, above: Sequence[Any]) -> Bound | None:
    """The bound of a collection; None: it has none that can be seen, or has more than that.

    Args:
        value: The collection.
        above: The objects on the way to it, the nearest first.
    """
    if issubclass(type(value), collections.deque):
        return _checked("maxlen", _entries(value), _entries(value), collections.deque.maxlen.__get__(value))
    for cached in (value, *above[:1]):
        if type(cached) is raw_objects.CACHE:
            _, _, most, entries = raw_objects.CACHE.cache_info(cached)
            return _checked("maxsize", entries, entries, most)
    entries = _entries(value)
    if entries == 0:
        return None
    # An object's attributes are a dictionary between the two.
    owners = [value, *(owner for owner in above[:2] if raw_objects.attribute_holding(owner, value) is not None)]
    for numbers in map(_numbers_of, owners):
        name = next(filter(_NAMES.fullmatch, numbers), None)
        if name is not None:
            return _checked(name, entries, numbers.get(_COUNTED, entries), numbers[name])
    return None


def in_code(value: Any, above: Sequence[Any], name: Name) -> Bound | None:
    """The bound that the program's code keeps a collection of this name to, as :func:`of` has it."""
    entries = _entries(value)
    limit = code_bounds.of(value, name, above[:2]) if entries else None
    # Between an addition and the comparison there is one more.
    counted = min(entries, limit.most) if limit is not None and entries == limit.most + 1 else entries
    return None if limit is None else _checked(limit.text, counted, counted, limit.most)


def _checked(name: str, entries: int, counted: int, most: int | None) -> Bound | None:
    return None if most is None or not 0 < counted <= most else Bound(name, entries, counted, most)


def _entries(value: Any) -> int:
    """Without a length that the class has itself; 0: it is no collection."""
    kind = next((kind for kind in (dict, list, set, collections.deque) if issubclass(type(value), kind)), None)
    return 0 if kind is None else kind.__len__(value)


def _numbers_of(owner: Any) -> dict[str, int]:
    """The attributes, its class's too, that are whole numbers, by what comes after underscores: `_Cache__maxsize`."""
    attributes: dict[str, Any] = {}
    for kind in reversed(raw_objects.mro_of(type(owner))):
        attributes |= raw_objects.namespace_of(kind)
    attributes |= {**(raw_objects.dictionary_of(owner) or {}), **dict(raw_objects.slots_of(owner))}
    return {
        name.rpartition("__")[2].lstrip("_"): value
        for name, value in attributes.items()
        if type(value) is int and type(name) is str
    }

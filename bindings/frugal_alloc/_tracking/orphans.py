"""What holds leaked tensors that no name reaches: objects that only C++ refers to, or that refer only to each other."""

from __future__ import annotations

import gc
import types
from typing import Any

from . import live_tensors, raw_objects
from .live_tensors import Extents
from .reach import Reach
from .roots import Root

# Enough to find all that hold them alike.
MOST_TENSORS = 2_000
# From a tensor to what nothing refers to.
MOST_LEVELS = 6
_CONTAINERS = (list, tuple, set, frozenset, dict, types.CellType)


def of(extents: Extents, reach: Reach) -> list[Root]:
    """The outermost objects that lead to leaked tensors that were not reached.

    Returns:
        A root of the kind "object" for each, by the name of its class.
    """
    known = set(map(id, reach.objects))
    objects = live_tensors.objects()
    level: list[Any] = [
        value
        for value in objects
        if live_tensors.is_tensor(value) and id(value) not in known and extents.at(live_tensors.address_of(value))
    ][:MOST_TENSORS]
    ours = {id(objects), id(known), id(reach.objects), id(reach.parents), id(reach.roots)}
    ours.update(map(id, reach.roots))
    seen = set(map(id, level))
    found: list[Any] = []
    for _ in range(MOST_LEVELS):
        ours.add(id(level))
        referrers = [one for one in gc.get_referrers(*level) if _may_hold(one, ours | seen)] if level else []
        ours.add(id(referrers))
        seen.update(map(id, referrers))
        # What has a class of its own says who holds.
        found += [one for one in referrers if not issubclass(type(one), _CONTAINERS)]
        level = [one for one in referrers if issubclass(type(one), _CONTAINERS)]
        if not level:
            break
    return [_root(one) for one in found]


def _may_hold(value: Any, leave_out: set[int]) -> bool:
    return id(value) not in leave_out and not issubclass(type(value), (types.FrameType, types.ModuleType))


def _root(value: Any) -> Root:
    kind = type(value)
    return Root("object", raw_objects.name_of(kind), value, raw_objects.file_of_class(kind), "", False)

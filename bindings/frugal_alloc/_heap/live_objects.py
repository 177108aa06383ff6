"""The objects of the program that Python's collector knows, those that it was told to leave alone among them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .._program.frame_variables import variables


def all_of_them() -> list[Any]:
    """After ``gc.freeze()``, whose objects the collector does not list, those of them that others lead to, or modules
    and variables of functions that run."""
    if gc.get_freeze_count() == 0:
        return gc.get_objects()
    # First: once its dictionary is listed, a frame would hold its variables twice.
    running = list(_of_running_functions())
    listed = gc.get_objects()
    found: dict[int, Any] = {}
    level = [*listed, *sys.modules.values(), *running]
    while level:
        found.update((id(value), value) for value in level)
        behind = {id(value): value for value in gc.get_referents(*level) if gc.is_tracked(value)}
        # No comprehension: up to Python 3.11 `found` would be in a cell, which it would hold.
        level = []
        for key, value in behind.items():
            if key not in found:
                level.append(value)
    for own in (running, listed, found, level, behind):
        found.pop(id(own), None)
    return list(found.values())


def of_kinds(*kinds: type) -> list[Any]:
    """Those that the collector lists of some classes, by their real ones: no code of the program's is asked."""
    return [value for value in gc.get_objects() if issubclass(type(value), kinds)]


def _of_running_functions() -> Iterator[Any]:
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            yield from variables(frame).values()
            frame = frame.f_back

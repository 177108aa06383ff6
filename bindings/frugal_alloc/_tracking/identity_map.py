"""A dictionary by identity that keeps none of its keys alive."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

Value = TypeVar("Value")


class IdentityMap(Generic[Value]):
    """As ``weakref.WeakKeyDictionary``, but for keys that may define ``__eq__`` and so have no hash."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref, Value]] = {}

    def get(self, key: object) -> Value | None:
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def set(self, key: object, value: Value) -> None:
        number = id(key)
        entries = self._entries

        def forget(reference: weakref.ref) -> None:
            # The number may be another object's by now.
            if number in entries and entries[number][0] is reference:
                del entries[number]

        entries[number] = (weakref.ref(key, forget), value)

    def keys(self) -> list[object]:
        """Those that are alive."""
        found = (reference() for reference, _ in list(self._entries.values()))
        return [key for key in found if key is not None]

    def __len__(self) -> int:
        return len(self._entries)

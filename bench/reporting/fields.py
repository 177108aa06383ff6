"""Reads fields out of JSON whose shape cannot be relied on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

_MISSING = object()
_MOST_BYTES = 1 << 30


class BadInput(Exception):
    """A file is not what it should be; the message is one line that says which, and what is wrong with it."""


def read_json(path: Path) -> Any:
    """The content of a file in JSON.

    Raises:
        BadInput: it cannot be read, is no JSON, or holds numbers that are none.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path} is too large to be a benchmark's figures")
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {str(error).splitlines()[0]}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


class Fields:
    """An object in JSON, with the name of where it is for messages."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise BadInput(f"{where} is not an object")
        self._value = value
        self.where = where

    def __contains__(self, name: str) -> bool:
        return self._value.get(name) is not None

    def text(self, name: str, default: Any = _MISSING) -> str:
        return self._take(name, str, "a text", default)

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        return self._take(name, bool, "true or false", default)

    def number(self, name: str, default: Any = _MISSING) -> float:
        """A number that is not negative."""
        value = self._take(name, (int, float), "a number", default)
        if value is default:
            return value
        if isinstance(value, bool) or not math.isfinite(value) or not 0 <= value < 1 << 63:
            raise BadInput(f"{self.where}: {name!r} is not a number from 0 up")
        return value

    def whole(self, name: str, default: Any = _MISSING) -> int:
        value = self.number(name, default)
        if value is not default and value != int(value):
            raise BadInput(f"{self.where}: {name!r} is not a whole number")
        return value if value is default else int(value)

    def items(self, name: str, default: Any = _MISSING) -> list[Any]:
        return self._take(name, list, "a list", default)

    def fields(self, name: str, default: Any = _MISSING) -> Fields:
        value = self._take(name, dict, "an object", default)
        return Fields(value, f"{self.where}: {name!r}")

    def numbers(self, name: str, default: Any = _MISSING) -> dict[str, float]:
        """An object whose values are all numbers."""
        found = self.fields(name, default)
        return {key: found.number(key) for key in found.names()}

    def texts(self, name: str, default: Any = _MISSING) -> dict[str, str]:
        """An object of simple values, as they are shown; without those that are null."""
        found = self.fields(name, default)
        return {key: str(found._value[key]) for key in found.names() if not isinstance(found._value[key], (dict, list))}

    def names(self) -> list[str]:
        return [name for name, value in self._value.items() if value is not None]

    def _take(self, name: str, kind: Any, title: str, default: Any) -> Any:
        value = self._value.get(name)
        if value is None and default is not _MISSING:
            return default
        if value is None:
            raise BadInput(f"{self.where} has no {name!r}")
        if not isinstance(value, kind):
            raise BadInput(f"{self.where}: {name!r} is not {title}")
        return value

"""Fields of a recording that somebody else made: each is what it must be, or the recording is refused."""

from __future__ import annotations

import reprlib
from typing import Any

_MOST_SHOWN = 60


class Malformed(Exception):
    """What the recording says cannot be; the message says what."""


def checked_number(record: Any, key: str, most: int = (1 << 64) - 1) -> int:
    value = record.get(key) if isinstance(record, dict) else None
    if type(value) is not int or not 0 <= value <= most:
        raise Malformed(f"an entry's {key!r} is {shown(value)}, not a number from 0 to {most}; the file is damaged")
    return value


def checked_list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed(f"its {what} is {type(value).__name__}, not a list; the file is damaged")
    return value


class _Shown(reprlib.Repr):
    """Values of a file in a message: some sixty characters, whatever they are."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, 40, 40
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 4

    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to write very long ones.
        return f"a number of {value.bit_length()} bits" if value.bit_length() > 128 else repr(value)


def shown(value: Any) -> str:
    return _SHOWN.repr(value)[:_MOST_SHOWN]


_SHOWN = _Shown()

"""Fields of a recording that somebody else made: each is what it must be, or the recording is refused.

There may be millions: so they are not read by the annotations of a dataclass.
"""

from __future__ import annotations

from typing import Any

from .._common.shapes import shown


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

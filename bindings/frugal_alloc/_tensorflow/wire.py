"""Protocol buffers as they lie in a file, read without their library and without trusting them."""

from __future__ import annotations

from collections.abc import Iterator

# Field number, and its value: a number, or where the bytes of a text or message begin and end.
Field = tuple[int, int | tuple[int, int]]


class Damaged(ValueError):
    """The bytes are no protocol buffer, or end too early."""


def fields(data: bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of the message between two places, in their order."""
    place = start
    while place < end:
        tag, place = _number(data, place, end)
        kind = tag & 7
        if kind == 0:
            value, place = _number(data, place, end)
            yield tag >> 3, value
        elif kind == 2:
            size, place = _number(data, place, end)
            place += size
            if place > end:
                raise Damaged("a field is longer than its message")
            yield tag >> 3, (place - size, place)
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise Damaged("a field has a kind that does not exist")
    if place != end:
        raise Damaged("a message ends within a field")


def _number(data: bytes, place: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while place < end:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            break
    raise Damaged("a number has no end")


def messages(data: bytes, where: tuple[int, int], number: int) -> Iterator[tuple[int, int]]:
    """Where the messages, or texts, of one field begin and end."""
    for found, value in fields(data, *where):
        if found == number and isinstance(value, tuple):
            yield value


def text(data: bytes, where: int | tuple[int, int]) -> str:
    """The text at a place, or nothing where a number is."""
    return data[where[0] : where[1]].decode(errors="replace") if isinstance(where, tuple) else ""

"""Whether a text says what was recorded, and no figure beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NUMBER = re.compile(rf"\d(?:[\d,.]*\d)?|\b(?:{'|'.join(_WORDS)}|half|thirds?|quarters?)\b", re.IGNORECASE)
GIB = 1 << 30


def word(count: int) -> str:
    return _WORDS[count - 2] if 2 <= count <= 12 else str(count)


def gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"


def assert_told(said: str, figures: Iterable[str]) -> None:
    """Each of the figures stands in the text, with the words around it, and what is left has no number."""
    rest = said
    for figure in figures:
        assert figure in said
        rest = rest.replace(figure, "")
    assert _NUMBER.findall(rest) == []

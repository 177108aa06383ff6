"""The settings of :func:`frugal_alloc.enable`.

The library parses and checks them (bindings/settings/settings.h); this module puts Python's values into its words.
"""

from __future__ import annotations

import os
from typing import Any

from .. import _native

# No GPU has so many bytes; a number of thousands of digits cannot even be written out.
_MOST_NUMBER = 1 << 63

_SWITCHES = ("track", "publish")
# What a number is, of which types it may be, and the unit of it in FRUGAL_ALLOC_CONF.
_NUMBERS: dict[str, tuple[str, tuple[type, ...], str]] = {
    "memory_limit": ("bytes", (int,), ""),
    "idle_release": ("seconds", (int, float), "s"),
}


def is_turned_off() -> bool:
    """FRUGAL_ALLOC=0: the user wants nothing of us, whatever the program asks for."""
    return os.environ.get("FRUGAL_ALLOC") == "0"


def to_text(**settings: Any) -> str:
    """The settings that are not None in the form of FRUGAL_ALLOC_CONF: numbers are bytes and seconds.

    Raises:
        FrugalAllocError: a value is of a type that cannot be one.
    """
    return ",".join(f"{name}:{_text_of(name, value)}" for name, value in settings.items() if value is not None)


def _text_of(name: str, value: Any) -> str:
    kind, number_types, unit = _NUMBERS.get(name, ("", (), ""))
    text = value
    if isinstance(value, bool):
        if name in _SWITCHES:
            text = "on" if value else "off"
    elif isinstance(value, number_types):
        if abs(value) < _MOST_NUMBER:
            text = f"{value}{unit}" if isinstance(value, int) else f"{value:.6f}{unit}"
    elif isinstance(value, os.PathLike) and not kind:
        text = os.fspath(value)
    # The library is to read all of it as one value: a comma begins another setting, a zero ends all.
    if not isinstance(text, str) or set(",\0") & set(text):
        possible = f"{kind} or a text as in FRUGAL_ALLOC_CONF" if kind else "a text without a comma"
        raise _native.FrugalAllocError(f"{name}={_shown(value)} is not possible; {name} is {possible}")
    return text


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except ValueError:  # a number of more digits than Python writes out
        return "such a number"

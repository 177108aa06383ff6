"""Types of arguments that several benches have: each raises ArgumentTypeError with what is wrong."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence

_MOST = 1 << 62


def among(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Some of these names, with commas between them."""

    def parse(text: str) -> list[str]:
        chosen = list(dict.fromkeys(text.split(",")))
        for name in chosen:
            if name not in names:
                raise ArgumentTypeError(f"{name!r} is not one of {', '.join(names)}")
        return chosen

    return parse


def seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < _MOST):
        raise ArgumentTypeError(f"a seed is a number from 0 on, not {text!r}")
    return int(text)


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < _MOST):
        raise ArgumentTypeError(f"{text!r} is not a number above zero")
    return int(text)


def minutes(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number of minutes above zero")
    return number

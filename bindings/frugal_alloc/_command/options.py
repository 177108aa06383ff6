"""Options that several commands have: the same words, and the same help, in each."""

from __future__ import annotations

import argparse
from typing import Any

from .._common.arguments import did_you_mean

#: In the order in which "all" takes them.
ALLOCATORS = ("native", "expandable", "frugal")


def add_allocator(group: Any, default: str, more: str = "") -> None:
    """Its value becomes a tuple of names."""
    group.add_argument(
        "--allocator",
        metavar="NAME[,NAME...]",
        type=_allocators,
        default=default,
        help="native: PyTorch's own; expandable: that with expandable segments; frugal: frugal_alloc; all, or several "
        f"with commas between: one after the other (default {default}{more})",
    )


def _allocators(text: str) -> tuple[str, ...]:
    names = ALLOCATORS if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in ALLOCATORS:
            known = (*ALLOCATORS, "all")
            raise argparse.ArgumentTypeError(f"there is no {name!r}{did_you_mean(name, known)}")
    return names

"""Options that several commands have: the same words, and the same help, in each."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import simulated_gpu
from simulated_gpu import gpu_models

from .._common.arguments import did_you_mean

#: In the order in which "all" takes them.
ALLOCATORS = ("native", "expandable", "frugal")
BARE_NUMBER = r"[\d.]+"


def add_gpu(parser: argparse.ArgumentParser, *, memory: str = "SIZE", more: str = "") -> Any:
    """Returns the group of options for those of the command's own.

    Args:
        memory: What may stand behind --memory.
        more: What its help says beside how to write a size.
    """
    group = parser.add_argument_group("GPU")
    group.add_argument("--gpu", metavar="NAME", help='its model, which says its memory: "RTX 4090", A100-80GB, H100')
    how = "16GiB or 16G (not 16GB, which has two meanings), 512MiB, or bytes"
    group.add_argument("--memory", metavar=memory, help=f"its memory: {how}{more}")
    return group


def add_gpus(group: Any) -> None:
    some = number(1, simulated_gpu.MOST_GPUS)
    group.add_argument("--gpus", metavar="N", type=some, default=1, help="number of GPUs, which are alike (default 1)")


def number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option's value."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 9 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r:.60} is no number from {least} to {most}")
        return int(text)

    return parse


def add_values(group: Any, default: str) -> None:
    group.add_argument(
        "--values",
        choices=("none", "cpu"),
        default=default,
        help="cpu: the CPU computes what a Python program's operators compute; none: there are only small integers and "
        f"booleans, so what depends on others is made up (default {default})",
    )


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


def check_words(options: argparse.Namespace) -> None:
    """Refuses what has fallen into two words: the second is the first of the command, before ``--``."""
    second = options.command[0] if options.command else ""
    is_bare = re.fullmatch(BARE_NUMBER, options.memory or "") is not None
    if is_bare and re.fullmatch(r"[kmgt](i?b)?", second, re.IGNORECASE):
        meant = f"--memory {options.memory}{second[0].upper()}iB"
        options.error(f"--memory {options.memory} {second} is two words; write it without the space: {meant}")
    name = f"{options.gpu} {second}"
    if options.gpu and second and _is_gpu(name) and not _is_gpu(options.gpu):
        options.error(f'--gpu {name} is two words; write it in quotes: --gpu "{name}"')


def _is_gpu(name: str) -> bool:
    try:
        gpu_models.find(name)
    except gpu_models.UnknownGpu:
        return False
    return True

"""Which GPU a command line asks for: one of the table by its name, or one of so much memory.

The options have the same words, and the same help, in each command."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from . import gpu_models, launcher
from .messages import Refused
from .modelled_machine import variable

CONTEXT = variable("context")
BARE_NUMBER = r"[\d.]+"


class ChoiceError(Refused):
    """No GPU is asked for, or one that cannot be; the message is one line that says what to do."""


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
    some = number(1, launcher.MOST_GPUS)
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


def choose(options: argparse.Namespace, base: Mapping[str, str] = os.environ) -> tuple[int, dict[str, str]]:
    """The memory of each GPU in bytes, and the variables that tell the simulated GPU its model.

    --memory goes before the model's memory, and a context in ``base`` before the model's.

    Raises:
        ChoiceError: neither option is given, or one is not understood.
    """
    if options.gpu is None and options.memory is None:
        raise ChoiceError("one of these is required: --memory SIZE, --gpu NAME")
    memory, settings = 0, {}
    if options.gpu is not None:
        try:
            model = gpu_models.find(options.gpu)
        except gpu_models.UnknownGpu as error:
            raise ChoiceError(f"--gpu: {error}") from None
        if model.unified and options.gpus != 1:
            raise ChoiceError(f"--gpu: there is one {model.name} in a machine, since its memory is the host's")
        memory = model.memory_bytes
        settings = {name: value for name, value in model.environment().items() if name != CONTEXT or name not in base}
    if options.memory is not None:
        try:
            memory = launcher.parse_size(options.memory)
        except launcher.SizeError as error:
            raise ChoiceError(f"--memory: {error}") from None
    return memory, settings


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

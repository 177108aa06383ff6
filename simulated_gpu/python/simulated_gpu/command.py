"""The command line: a command on a simulated GPU."""

from __future__ import annotations

import argparse
import os
import sys

from . import driver_options, gpu_choice, launcher
from .messages import Refused, on_one_line

INTERRUPTED = 130


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the options; the words of the command are the caller's to add, as ``command``."""
    parser.usage = "%(prog)s --gpu NAME [OPTION ...] -- COMMAND [ARGUMENT ...]"
    parser.description = (
        "Runs a command on a simulated GPU: memory, streams and events are modelled, kernels compute nothing. Its exit "
        "status is the command's."
    )
    gpu_choice.add_gpus(gpu_choice.add_gpu(parser))
    gpu_choice.add_values(parser.add_argument_group("program"), "none")
    driver_options.add_options(parser)


def carry_out(options: argparse.Namespace, name: str) -> int:
    """Returns the command's status.

    Args:
        options: Those that are added, ``command``, and ``error``, which ends the process with a message.
        name: Of who says on stderr what is run, and what stands in the way.

    Raises:
        Refused: an option cannot be had.
    """
    gpu_choice.check_words(options)
    memory, model = gpu_choice.choose(options)
    base = {**os.environ, **model, **driver_options.settings(options)}
    try:
        return launcher.run(options.command, memory, options.gpus, options.values, base, name)
    except KeyboardInterrupt:
        return INTERRUPTED


def main(arguments: list[str]) -> int:
    """Carries out a command line of ``python -m simulated_gpu``; returns the status to end with."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser("simulated_gpu")
    add(parser)
    parser.set_defaults(command=arguments[end + 1 :], error=parser.error)
    options = parser.parse_args(arguments[:end])
    if not options.command:
        parser.error("name the command to run, after --")
    try:
        return carry_out(options, parser.prog)
    except Refused as error:
        print(f"{parser.prog}: {on_one_line(str(error))}", file=sys.stderr)
        return 2

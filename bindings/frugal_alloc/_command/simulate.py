"""``frugal-alloc simulate``: a command on a simulated GPU."""

from __future__ import annotations

import argparse
import os

import simulated_gpu
from simulated_gpu import driver_options, gpu_choice

from .._common.arguments import INTERRUPTED, Parser
from . import options as shared


def add(parser: Parser) -> None:
    parser.usage = "%(prog)s --gpu NAME [OPTION ...] -- COMMAND [ARGUMENT ...]"
    parser.description = (
        "Runs a command on a simulated GPU: memory, streams and events are modelled, kernels compute nothing. Its exit "
        "status is the command's."
    )
    shared.add_gpus(shared.add_gpu(parser))
    shared.add_values(parser.add_argument_group("program"), "none")
    driver_options.add_options(parser)
    parser.add_command()


def carry_out(options: argparse.Namespace) -> int:
    shared.check_words(options)
    memory, model = gpu_choice.choose(options)
    base = {**os.environ, **model, **driver_options.settings(options)}
    try:
        return simulated_gpu.run(options.command, memory, options.gpus, options.values, base)
    except KeyboardInterrupt:
        return INTERRUPTED

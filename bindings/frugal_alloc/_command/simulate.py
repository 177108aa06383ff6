"""``frugal-alloc simulate``: a command on a simulated GPU."""

from __future__ import annotations

import argparse
import os

from .._common.arguments import INTERRUPTED, Parser
from .._simulation import gpu_choice, simulated_driver, simulated_gpu


def add(parser: Parser) -> None:
    parser.usage = (
        "%(prog)s --gpu NAME|--memory SIZE [--gpus N] [--values none|cpu] [--node NAME] [--driver-costs FILE] "
        "[--driver-time] [--full] [--unified] -- COMMAND [ARGUMENT ...]"
    )
    parser.description = (
        "Runs a command on a simulated GPU: memory, streams and events are modelled, kernels compute nothing. Its exit "
        "status is the command's."
    )
    gpu_choice.add_options(parser)
    parser.add_argument("--gpus", metavar="N", type=int, default=1, help="number of GPUs (default 1)")
    parser.add_argument(
        "--values",
        choices=("none", "cpu"),
        default="none",
        help="cpu: operators of a Python program compute their values, on the CPU; none (default): only small integers "
        "and booleans have values, so control flow that depends on others is not faithful",
    )
    simulated_driver.add_options(parser)
    parser.add_command()


def carry_out(options: argparse.Namespace) -> int:
    try:
        memory, model = gpu_choice.choose(options)
        base = {**os.environ, **model, **simulated_driver.settings(options)}
    except (gpu_choice.ChoiceError, simulated_driver.DriverOptionError) as error:
        options.error(str(error))
    try:
        return simulated_gpu.run(options.command, memory=memory, gpus=options.gpus, values=options.values, base=base)
    except KeyboardInterrupt:
        return INTERRUPTED

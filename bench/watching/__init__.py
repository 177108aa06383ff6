"""What watching costs of a training's host time, from its first step on: a table in CSV.

Kernels and calls of the driver take hardly any time on the simulated GPU. So a step is the host's work alone, of which
watching takes the largest part; on a GPU it is hidden behind kernels, unless these are short. No values are computed.

A sample is one process for each way to run. They take turns on one core, in a random order: a turn is five steps, and
its figure the processor time of all threads. What the machine does beside makes both of a pair of turns slower.
"""

from __future__ import annotations

import argparse
import sys

import simulated_gpu
from frugal_alloc._common.arguments import Parser

from ..arguments import names_of

NAMES = ("gpt2", "dpo", "resnet50", "graphs")


def add(parser: Parser) -> None:
    only = names_of(NAMES)
    parser.add_argument("--only", type=only, default=list(NAMES), metavar="NAME,...", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--samples", type=int, default=4, help="of 24 pairs of turns for each row (default 4)")


def carry_out(options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "bench.watching", ",".join(options.only), str(options.samples)]
    return simulated_gpu.run(command, 16 << 30)

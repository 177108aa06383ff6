"""``frugal-alloc simulate``: a command on a simulated GPU."""

from __future__ import annotations

import argparse

from simulated_gpu import command

from .._common.arguments import Parser


def add(parser: Parser) -> None:
    command.add(parser)
    parser.add_command()


def carry_out(options: argparse.Namespace) -> int:
    return command.carry_out(options, "frugal-alloc")

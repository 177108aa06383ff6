"""The command line of ``frugal-alloc check``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from ..._common.arguments import INTERRUPTED, Interrupted, Parser
from ..._common.messages import Refused
from ..._simulation import simulated_gpu
from . import checks, runs, wording
from .baseline import BaselineError
from .comparison import Allowance


def add(parser: Parser) -> None:
    parser.usage = (
        "%(prog)s --baseline FILE [--update [--runs N]] [--allow BYTES|PERCENT] [--memory SIZE] [--gpus N] "
        "[--values none|cpu] [--allocator native|expandable|frugal] [--json] -- COMMAND [ARGUMENT ...]"
    )
    parser.description = (
        "Runs tests by pytest, or any command, on a simulated GPU, and compares what each test, or each process, takes "
        "of its memory with a baseline. Exit status 1 if one takes more, 2 if nothing could be compared, else the "
        "command's."
    )
    parser.add_argument("--baseline", metavar="FILE", required=True, help="the file to compare with")
    parser.add_argument("--update", action="store_true", help="write what was measured to that file instead")
    parser.add_argument(
        "--runs",
        metavar="N",
        type=_number(1, 100),
        default=1,
        help="run the command so often; figures that differ between the runs are not compared (default 1)",
    )
    parser.add_argument(
        "--allow",
        metavar="BYTES|PERCENT",
        type=allowance,
        default=Allowance(),
        help="how much more is no regression: 1MiB, 2%% (default 0)",
    )
    parser.add_argument(
        "--memory", metavar="SIZE", type=simulated_gpu.parse_size, help="memory of each GPU (default 16GiB)"
    )
    parser.add_argument("--gpus", metavar="N", type=_number(1, simulated_gpu.MOST_GPUS), help="number (default 1)")
    parser.add_argument(
        "--values",
        choices=("none", "cpu"),
        help="cpu (default): operators compute their values on the CPU, as tests want it; none: quicker, and closer to "
        "what a GPU's own kernels take",
    )
    parser.add_argument(
        "--allocator", choices=runs.ALLOCATORS, help="native (default): PyTorch's; expandable: with expandable segments"
    )
    parser.add_argument("--json", action="store_true", help="print JSON; the command's output goes to standard error")
    parser.add_command()


def carry_out(options: argparse.Namespace) -> int:
    order = checks.Order(*(getattr(options, name) for name in checks.Order._fields))
    try:
        return checks.carry_out(order)
    except (BaselineError, checks.CheckError) as error:
        raise Refused(str(error)) from None
    except (runs.Interrupted, KeyboardInterrupt) as error:
        undone = f"{wording.relative(order.baseline)} was not written" if order.update else "nothing was compared"
        status = error.status if isinstance(error, runs.Interrupted) else INTERRUPTED
        raise Interrupted(f"{str(error) or 'interrupted'}: {undone}", status) from None


def allowance(text: str) -> Allowance:
    """
    Raises:
        ArgumentTypeError: the text is neither a size nor a share.
    """
    if match := re.fullmatch(r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*%\s*", text, re.ASCII):
        return Allowance(share=float(match[1]) / 100)
    if text.strip() == "0":
        return Allowance()
    try:
        return Allowance(bytes=simulated_gpu.parse_size(text))
    except simulated_gpu.SizeError:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is neither bytes, like 1MiB, nor a share, like 2%") from None


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 9 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r:.60} is no number from {least} to {most}")
        return int(text)

    return parse

"""``frugal-alloc top``: what the processes of this machine do with GPU memory, as they do it."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from typing import NoReturn

from ..._common.arguments import INTERRUPTED, Parser
from . import exporter, picture, screen

_LEAST_INTERVAL, _MOST_INTERVAL = 0.1, 3600.0
_DESCRIPTION = (
    "Shows what the processes of this machine that run with frugal_alloc do with GPU memory: in use, held, wasted, the "
    "peak, what leaks, and errors that memory was out. A process is seen once it uses a GPU; those of other users are "
    "shown to root alone. On a terminal it goes on until q is pressed."
)


def add(parser: Parser) -> None:
    parser.description = _DESCRIPTION
    parser.add_argument("--once", action="store_true", help="print it once, as where the output is no terminal")
    parser.add_argument("--json", action="store_true", help="print it once, as a JSON object")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=float,
        default=2.0,
        help="how often to look (default 2; 0.1 to 3600)",
    )
    parser.add_argument(
        "--prometheus",
        metavar="[HOST:]PORT",
        help="serve the figures to Prometheus at this port (of 127.0.0.1, if no host is named) until Ctrl-C",
    )


def carry_out(options: argparse.Namespace) -> int:
    if not _LEAST_INTERVAL <= options.interval <= _MOST_INTERVAL:
        options.error(f"--interval {options.interval:g} is not possible: give 0.1 to 3600 seconds")
    if options.prometheus is not None and (options.json or options.once):
        options.error("--prometheus goes on until it is stopped: leave out --json and --once")
    try:
        if options.prometheus is not None:
            _serve(options)
        elif options.json:
            print(json.dumps(picture.take(), indent=2))
        elif options.once or not _has_screen():
            screen.print_once(picture.take(), sys.stdout)
        else:
            screen.watch(picture.take, options.interval, sys.stdout)
    except KeyboardInterrupt:  # the usual end of what goes on
        return INTERRUPTED
    return 0


def _has_screen() -> bool:
    return sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()


def _serve(options: argparse.Namespace) -> NoReturn:
    address = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s]+):)?(\d{1,5})", options.prometheus)
    if address is None or int(address[2]) > 65535:
        options.error(f"--prometheus {options.prometheus}: give a port, such as 9401, or 0.0.0.0:9401")
    try:
        where = exporter.serve((address[1] or "127.0.0.1").strip("[]"), int(address[2]))
    except exporter.ExporterError as error:
        options.error(str(error))
    print(f"serving {where}", flush=True)
    while True:
        signal.pause()

"""Turns the figures of the benchmarks into one HTML page that needs nothing but itself.

From the root of a checkout::

    bazel run -c opt //bench:replay_bench -- --json replay.json
    .venv/bin/python -m bench.report replay.json [--train train.json] [--micro micro.json] [--out report.html]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from frugal_alloc._arguments import Parser, refuse

from . import output_file


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        from .reporting import micro, page, replays, trainings
        from .reporting.fields import BadInput
    except ModuleNotFoundError as error:
        return refuse("report", f"{error.name} is not installed; run tools/setup, and use .venv/bin/python")
    try:
        output_file.check(options.out)
        html = page.render(
            replays.read(options.figures),
            trainings.read(options.train) if options.train else None,
            micro.read(options.micro) if options.micro else None,
        )
        output_file.write(options.out, html)
    except (BadInput, output_file.NotWritable) as error:
        return refuse("report", error)
    print(f"{options.out}: {len(html) / 1024:,.0f} KiB")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser("report", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "figures", type=Path, metavar="FIGURES", help="what //bench:replay_bench has written with --json"
    )
    parser.add_argument("--train", type=Path, metavar="FILE", help="what bench.train_bench wrote with --json")
    parser.add_argument(
        "--micro", type=Path, metavar="FILE", help="what //bench:micro_bench wrote with --benchmark_out"
    )
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE", help="default report.html")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

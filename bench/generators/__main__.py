"""``python -m bench.generators``: lists the generators, or writes the history of one to a file."""

from __future__ import annotations

import sys
from pathlib import Path

from frugal_alloc._common.arguments import Parser

from . import DEFAULT_SEED, GENERATORS, BadScale, generate
from .recorder import GIB, write


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.name is None:
        for name, generator in GENERATORS.items():
            print(f"{name:18}  {generator.summary}")
        return 0
    try:
        history = generate(options.name, options.seed, options.scale)
    except BadScale as error:
        parser.error(str(error))
    path = options.out or Path(f"{options.name}.json")
    try:
        write(history, path)
    except OSError as error:
        parser.error(f"{path} cannot be written: {error.strerror or error}")
    print(
        f"{path}: {history.event_count} events, at most {history.peak_live_bytes / GIB:.2f} GiB live", file=sys.stderr
    )
    return 0


def _parser() -> Parser:
    parser = Parser("bench.generators", description="Makes up an allocation history that frugal-alloc replay reads.")
    parser.add_argument("name", nargs="?", choices=GENERATORS, metavar="NAME", help="without one: lists them")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default %(default)s")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="how many times as long (default 1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default NAME.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""``python -m bench.recordings``: makes recordings again, those named or all, where bench/histories has them."""

from __future__ import annotations

import sys
from pathlib import Path

import simulated_gpu
from frugal_alloc._common.arguments import Parser

from . import DEFAULT_SEED, NAMES, RecordingFailed, file_of, record, write

_FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no recording is named {name!r}; there are {', '.join(NAMES)}")
    if options.folder is not None and not options.folder.is_dir():
        parser.error(f"--folder: there is no folder {options.folder}")
    for name in options.names or NAMES:
        path = file_of(name, options.folder) if options.folder else file_of(name)
        try:
            history = record(name, options.seed)
            write(history, path)
        except (RecordingFailed, OSError) as error:
            print(f"{parser.prog}: {error}", file=sys.stderr)
            return _FAILED
        except simulated_gpu.SimulationError as error:
            parser.error(str(error))
        gib = history.peak_live_bytes / (1 << 30)
        print(f"{path}: {history.event_count} events, {history.stream_count} streams, at most {gib:.2f} GiB live")
    return 0


def _parser() -> Parser:
    parser = Parser("bench.recordings", description="Records what a program allocates, on the simulated GPU.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(NAMES)} (default all)")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default %(default)s")
    parser.add_argument("--folder", type=Path, help="where the files go (default bench/histories)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

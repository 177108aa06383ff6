"""``bazel run -c opt //bench -- COMMAND``: the figures that documents tell, beside those of PyTorch's own allocators.

All of them are of the simulated GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import simulated_gpu
from frugal_alloc._common import installation
from frugal_alloc._common.arguments import INTERRUPTED, Parser, refuse
from frugal_alloc._planning.replay import history_files, replays

from . import compare, left_over, watching
from .comparison.policy import PlayError

COMMANDS = {"compare": compare, "left_over": left_over, "watching": watching}
_PROGRAM = Path(__file__).resolve().parent.parent / ".bazel" / "bin" / "bench" / "policy_player"
_FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = Parser(
        "bench", description="Measures the figures of documents on the simulated GPU, beside PyTorch's own allocators."
    )
    # Bazel gives it.
    parser.add_argument("--program", type=Path, default=_PROGRAM, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").split("\n")[0]
        command = commands.add_parser(name, help=summary.rstrip("."), description=summary)
        command.set_defaults(carry_out=module.carry_out, prog=command.prog)
        module.add(command)
    options = parser.parse_args(arguments)
    options.given = arguments[arguments.index(options.command) :]
    try:
        return options.carry_out(options)
    except (history_files.HistoryError, installation.MissingPart) as error:
        return refuse(options.prog, error)
    except (PlayError, replays.ReplayError, simulated_gpu.SimulationError, OSError) as error:
        print(f"{options.prog}: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print(f"{options.prog}: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

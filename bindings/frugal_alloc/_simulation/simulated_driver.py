"""How strict the simulated driver is: what options of ``frugal-alloc simulate`` tell it through its environment."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


class DriverOptionError(Exception):
    """An option cannot be had; the message is one line that says what to do."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--node",
        metavar="NAME",
        help="share GPUs, the driver's tables and its lock with the other programs of that name that run now",
    )
    parser.add_argument(
        "--driver-costs", metavar="FILE", help="what calls of the driver take, in the place of the built-in table"
    )
    parser.add_argument("--driver-time", action="store_true", help="calls of the driver take their time")
    parser.add_argument(
        "--unified", action="store_true", help="the GPU's memory is the host's, as a DGX Spark's or a Jetson's is"
    )
    parser.add_argument(
        "--full", action="store_true", help="the driver takes memory for modules, page tables and streams as they come"
    )


def settings(options: argparse.Namespace) -> dict[str, str]:
    """The variables that say to the simulated driver what these options ask for.

    Raises:
        DriverOptionError: an option cannot be had.
    """
    result = {}
    if options.node is not None:
        result["FRUGAL_SIM_NODE"] = str(node_file(options.node))
    if options.driver_costs is not None:
        costs = Path(options.driver_costs).absolute()
        if not costs.is_file():
            raise DriverOptionError(f"--driver-costs: there is no file {costs}; frugal-alloc doctor --gpu writes one")
        result["FRUGAL_SIM_COSTS"] = str(costs)
    if options.driver_time:
        result["FRUGAL_SIM_DRIVER_TIME"] = "1"
    if options.unified and options.gpus != 1:
        raise DriverOptionError(f"--unified goes with one GPU, whose memory is the host's, not with {options.gpus}")
    if options.unified:
        result["FRUGAL_SIM_UNIFIED"] = "1"
    if options.full:
        result["FRUGAL_SIM_FULL"] = "1"
    return result


def node_file(name: str) -> Path:
    """The file that stands for this user's node of that name.

    Raises:
        DriverOptionError: it is not a name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise DriverOptionError(f"--node: {name!r:.80} is not a name; use up to 64 letters, digits, dots and dashes")
    return _folder() / f"frugal_alloc-{os.getuid()}-{name}"


def _folder() -> Path:
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())


@contextlib.contextmanager
def node_of_command(gpus: int, base: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The variables that give the processes of one command GPUs in common, as those of a real machine have them.

    None are needed for one GPU, whose programs share it by ``--node`` alone, or where ``base`` names a node.
    """
    if gpus == 1 or base.get("FRUGAL_SIM_NODE"):
        yield {}
        return
    # It cannot be a node's name, so that nobody joins.
    own = f"frugal_alloc-{os.getuid()}-+"
    for left in _folder().glob(f"{own}*"):  # by a command that was killed
        if not Path("/proc", left.name.removeprefix(own)).exists():
            left.unlink(missing_ok=True)
    path = _folder() / f"{own}{os.getpid()}"
    try:
        yield {"FRUGAL_SIM_NODE": str(path)}
    finally:
        path.unlink(missing_ok=True)

"""How strict the simulated driver is: what options of a command line tell it through its environment."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .messages import Refused
from .modelled_machine import ModelledMachine, said

SHARED_MEMORY = Path("/dev/shm")


class DriverOptionError(Refused):
    """An option cannot be had; the message is one line that says what to do."""


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("driver")
    group.add_argument(
        "--node",
        metavar="NAME",
        help="share GPUs, the driver's tables and its lock with the other programs of that name that run now",
    )
    group.add_argument(
        "--driver-costs", metavar="FILE", help="what calls of the driver take, in the place of the built-in table"
    )
    group.add_argument("--driver-time", action="store_true", help="calls of the driver take their time")
    group.add_argument(
        "--unified", action="store_true", help="the GPU's memory is the host's, as a DGX Spark's or a Jetson's is"
    )
    group.add_argument(
        "--full", action="store_true", help="the driver takes memory for modules, page tables and streams as they come"
    )


def settings(options: argparse.Namespace) -> dict[str, str]:
    """The variables that say to the simulated driver what these options ask for.

    Raises:
        DriverOptionError: an option cannot be had.
    """
    costs = Path(options.driver_costs).absolute() if options.driver_costs is not None else None
    if costs is not None and not costs.is_file():
        raise DriverOptionError(f"--driver-costs: there is no file {costs}; frugal-alloc doctor --gpu writes one")
    if options.unified and options.gpus != 1:
        raise DriverOptionError(f"--unified goes with one GPU, whose memory is the host's, not with {options.gpus}")
    node = None if options.node is None else str(node_file(options.node))
    switches = {name: getattr(options, name) for name in ("driver_time", "unified", "full")}
    return ModelledMachine(node=node, costs=None if costs is None else str(costs), **switches).variables()


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
    if gpus == 1 or said("node", base):
        yield {}
        return
    # It cannot be a node's name, so that nobody joins.
    own = f"frugal_alloc-{os.getuid()}-+"
    for left in _folder().glob(f"{own}*"):  # by a command that was killed
        if not Path("/proc", left.name.removeprefix(own)).exists():
            left.unlink(missing_ok=True)
    path = _folder() / f"{own}{os.getpid()}"
    try:
        yield ModelledMachine(node=str(path)).variables()
    finally:
        path.unlink(missing_ok=True)

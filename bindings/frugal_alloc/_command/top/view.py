"""Which processes of the picture are shown, in which order and from which line on: by options, and by keys."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from typing import Any

from . import picture

_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_ENDS = (b"q", b"Q", b"\x04")
_SORTS = {b"m": "memory", b"g": "gpu", b"p": "pid"}
# Lines, or screens where they are fractions.
_SCROLLS = {b"\x1b[A": -1, b"\x1bOA": -1, b"\x1b[B": 1, b"\x1bOB": 1, b"\x1b[5~": -0.5, b"\x1b[6~": 0.5, b" ": 0.5}
#: What the keys do, in words.
KEYS = "q ends; arrows scroll; m, g, p sort by memory, GPU, PID; 0 to 9 show one GPU, a all"

Process = dict[str, Any]

_ORDERS: dict[str, Callable[[Process], tuple]] = {
    "memory": lambda process: (-_reserved(process), process["pid"]),
    "gpu": lambda process: (min((gpu["gpu"] for gpu in process.get("gpus", ())), default=1 << 30), -_reserved(process)),
    "pid": lambda process: (process["pid"],),
}
#: The names of the orders.
SORTS = tuple(_ORDERS)


@dataclasses.dataclass
class View:
    """None: all."""

    gpu: int | None = None
    pid: int | None = None
    user: int | None = None  # its number
    sort: str = "pid"
    #: Lines that are scrolled past.
    first: int = 0

    def of(self, document: dict[str, Any]) -> dict[str, Any]:
        """The picture of what is shown."""
        shown = sorted(filter(self._shows, map(self._cut, document["processes"])), key=_ORDERS[self.sort])
        return document | {"processes": shown, "gpus": picture.sums(shown)}

    def _cut(self, process: Process) -> Process:
        if self.gpu is None or process["problem"] is not None:
            return process
        return process | {"gpus": [gpu for gpu in process["gpus"] if gpu["gpu"] == self.gpu]}

    def _shows(self, process: Process) -> bool:
        has_gpu = self.gpu is None or bool(process.get("gpus"))
        return has_gpu and self.pid in (None, process["pid"]) and self.user in (None, _owner(process["pid"]))

    def press(self, keys: bytes, height: int) -> bool:
        """Follows what was typed on a screen of so many lines. Returns whether it is to end."""
        for key in _KEY.findall(keys):
            if key in _ENDS:
                return True
            if key.isdigit():
                self.gpu = int(key)
            elif key == b"a":
                self.gpu = self.pid = self.user = None
            step = _SCROLLS.get(key, 0)
            self.sort = _SORTS.get(key, self.sort)
            self.first = max(0, self.first + (step if isinstance(step, int) else int(step * height)))
        return False


def _reserved(process: Process) -> int:
    return sum(gpu["reserved_bytes"] for gpu in process.get("gpus", ()))


def _owner(pid: int) -> int | None:
    """The number of the process's user; None: it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None

"""Walks of autograd's graphs: how far they go, and what nodes have saved, without running code of the program's."""

from __future__ import annotations

import time
from typing import Any

# The attributes of each class of nodes that hold what it saved.
_names: dict[type, tuple[str, ...]] = {}


def saved_tensors(node: Any) -> list[Any]:
    """The tensors that a node has saved as they are.

    Unpacking anything else runs a hook that may compute it again or bring it back from the host, which needs memory.
    """
    kind = type(node)
    names = _names.get(kind)
    if names is None:
        names = _names[kind] = tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
    found = []
    for name in names:
        try:
            values = getattr(node, name)
        except RuntimeError:  # let go by a backward
            continue
        for saved in values if isinstance(values, (tuple, list)) else (values,):
            if getattr(saved, "unpack_hook", True) is None and (data := getattr(saved, "data", None)) is not None:
                found.append(data)
    return found


class WalkLimit:
    """How far a walk may go: so many nodes, and so many seconds of work of the calling thread.

    Not seconds of the clock: on a busy machine a thread may wait for as long as a walk takes, and what an error says
    would depend on it.
    """

    # To ask takes up to 1.2 us, a node 3.
    _NODES_A_QUESTION = 16

    def __init__(self, nodes: int, seconds: float) -> None:
        self._nodes = nodes
        self._until = time.thread_time() + seconds

    def is_reached(self, seen: int) -> bool:
        """Whether a walk that has seen so many nodes, asked after each, ends here."""
        return seen >= self._nodes or (seen % self._NODES_A_QUESTION == 0 and time.thread_time() > self._until)

"""Walks of autograd's graphs: how far they go, and what nodes have saved, without running code of the program's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

# Of graphs as long as a leaking run, whose steps are alike: so many of the latest say enough.
MOST_NODES = 50_000
# To ask for the time takes up to 1.2 us, a node 3.
_NODES_A_QUESTION = 16

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


class Walk:
    """A walk of graphs, which ends after MOST_NODES nodes, or so many seconds of work of the calling thread.

    Not seconds of the clock: on a busy machine a thread may wait for as long as a walk takes, and what an error says
    would depend on it.

    Attributes:
        seen: The nodes so far.
        is_complete: False: there was more than could be looked at.
    """

    def __init__(self, seconds: float) -> None:
        self.seen: set[Any] = set()
        self.is_complete = True
        self._until = time.thread_time() + seconds

    def behind(self, roots: Iterable[Any]) -> Iterator[Any]:
        """The nodes that lead to the inputs of some, and these themselves, but for those that were seen before."""
        waiting = [root for root in roots if root is not None]
        while waiting:
            node = waiting.pop()
            if node in self.seen:
                continue
            if self._is_over():
                self.is_complete = False
                return
            self.seen.add(node)
            yield node
            waiting.extend(following for following, _ in node.next_functions if following is not None)

    def _is_over(self) -> bool:
        count = len(self.seen)
        return count >= MOST_NODES or (count % _NODES_A_QUESTION == 0 and time.thread_time() > self._until)

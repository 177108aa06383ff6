"""What autograd keeps for a backward pass. Its graphs are walked from the results; nothing is unpacked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._program.autograd import WalkLimit, saved_tensors

# A graph of a leak may be as long as the run; what was seen until then is a lower bound.
_MOST_NODES = 50_000
_MOST_SECONDS = 0.03


class Graph:
    """The nodes that lead to the given ones' inputs, and the tensors that they have saved.

    Attributes:
        saved: Each saved tensor as often as it was saved. Those that are saved as they are by Python appear as the
            very same objects.
        is_complete: False: there was more than could be looked at in the time.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.saved: list[Any] = []
        self.is_complete = True
        self._seen: set[Any] = set()
        self._walk([root for root in roots if root is not None])

    def __contains__(self, node: Any) -> bool:
        return node in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def _walk(self, waiting: list[Any]) -> None:
        limit = WalkLimit(_MOST_NODES, _MOST_SECONDS)
        while waiting:
            node = waiting.pop()
            if node in self._seen:
                continue
            self._seen.add(node)
            if limit.is_reached(len(self._seen)):
                self.is_complete = False
                return
            waiting.extend(following for following, _ in node.next_functions if following is not None)

    def collect(self, leave_out: Graph | None = None) -> None:
        """Fills `saved`, without what the nodes of another graph have saved."""
        for node in self._seen:
            if leave_out is None or node not in leave_out:
                self.saved.extend(_saved_by(node))


def _saved_by(node: Any) -> list[Any]:
    # A Python function's context may hold tensors of its own.
    return saved_tensors(node) + [value for value in getattr(node, "__dict__", {}).values() if is_tensor(value)]


def can_walk() -> bool:
    """Whether this PyTorch tells what was saved without unpacking it."""
    import torch

    saved = getattr(torch._C._autograd, "SavedTensor", None)
    return hasattr(saved, "data") and hasattr(saved, "unpack_hook")


def is_tensor(value: Any) -> bool:
    import torch

    # Not isinstance: that asks the value, which may be a proxy that answers with an import or a warning.
    return issubclass(type(value), torch.Tensor)

"""The tensors on GPUs that Python knows of, by the memory they lie in; and what autograd's graphs have saved."""

from __future__ import annotations

import bisect
import gc
from collections.abc import Iterable
from typing import Any, NamedTuple

from .._autograd import WalkLimit, saved_tensors

# Of graphs as long as a leaking run, whose steps are alike: the latest of them say enough.
MOST_NODES = 50_000
MOST_SECONDS = 0.5


class Extent(NamedTuple):
    """A block that is looked for, and the group that it belongs to."""

    address: int
    bytes: int
    group: int


class Extents:
    """Finds the block in which an address lies."""

    def __init__(self, extents: Iterable[Extent]) -> None:
        self._extents = sorted(extents)
        self._addresses = [extent.address for extent in self._extents]

    def at(self, address: int) -> Extent | None:
        position = bisect.bisect_right(self._addresses, address) - 1
        if position < 0:
            return None
        extent = self._extents[position]
        return extent if address < extent.address + extent.bytes else None


def all_objects(kind: type, objects: list[Any]) -> list[Any]:
    """Those of a class. By their real type, since asking an object for its class may run code of the user's."""
    return [candidate for candidate in objects if issubclass(type(candidate), kind)]


def address_of(tensor: Any) -> int:
    """Where a dense tensor's memory is on a GPU; 0 for others. To be called with torch functions disabled."""
    try:
        return tensor.untyped_storage().data_ptr() if tensor.is_cuda else 0
    except (RuntimeError, NotImplementedError, ReferenceError, AttributeError, TypeError):
        return 0


def gradient_of(tensor: Any) -> Any:
    """The gradient that is kept with a parameter, whether or not Python has seen it."""
    try:
        return tensor.grad if tensor.is_leaf and tensor.requires_grad else None
    except RuntimeError:
        return None


def without_torch_functions() -> Any:
    """A context in which looking at a tensor of a subclass runs none of the subclass's code."""
    import torch

    return torch._C.DisableTorchFunctionSubclass()


class GraphMemory:
    """Which blocks are saved in the graphs behind some tensors, and behind which."""

    def __init__(self, roots: list[Any], extents: Extents) -> None:
        self._extents = extents
        #: Address of a block -> number of the first root whose graph saves it.
        self.root_of_block: dict[int, int] = {}
        #: For each root, the nodes that no root before it leads to.
        self.nodes_of_root: list[int] = []
        self.is_complete = True
        seen: set[Any] = set()
        limit = WalkLimit(MOST_NODES, MOST_SECONDS)
        for number, root in enumerate(roots):
            before = len(seen)
            self._walk(root.grad_fn, number, seen, limit)
            self.nodes_of_root.append(len(seen) - before)

    def _walk(self, node: Any, number: int, seen: set[Any], limit: WalkLimit) -> None:
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            if limit.is_reached(len(seen)):
                self.is_complete = False
                return
            seen.add(node)
            for saved in saved_tensors(node):
                extent = self._extents.at(address_of(saved))
                if extent is not None:
                    self.root_of_block.setdefault(extent.address, number)
            waiting.extend(following for following, _ in node.next_functions)


def objects() -> list[Any]:
    """All that Python's garbage collector knows of; to be let go soon."""
    return gc.get_objects()

"""The tensors on GPUs that Python knows of, by the memory they lie in; and what autograd's graphs have saved."""

from __future__ import annotations

import bisect
import functools
import gc
import operator
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .. import _native
from . import kept_pools, raw_objects

# Of long graphs, which leak.
MOST_SECONDS = 0.5
# Of graphs as long as a leaking run, whose steps are alike: so many of the latest say enough.
MOST_NODES = 50_000
# To ask for the time takes up to 1.2 us, a node 3.
_NODES_A_QUESTION = 16
# From the context of an autograd.Function: its dictionary, a list in it, the tensors.
CONTEXT_LEVELS = 4

#: Address, bytes and epoch of birth; -1: that is not known.
Block = tuple[int, int, int]


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

    @classmethod
    def of_groups(cls, groups: list[list[Block]]) -> Extents:
        return cls(Extent(address, size, number) for number, blocks in enumerate(groups) for address, size, _ in blocks)

    def at(self, address: int) -> Extent | None:
        position = bisect.bisect_right(self._addresses, address) - 1
        if position < 0:
            return None
        extent = self._extents[position]
        return extent if address < extent.address + extent.bytes else None


def tensor_type() -> Any:
    """PyTorch's class of tensors; None: PyTorch is not imported."""
    return raw_objects.imported("torch", "Tensor")


def is_tensor_type(kind: type) -> bool:
    tensor = tensor_type()
    return tensor is not None and issubclass(kind, tensor)


def is_tensor(value: Any) -> bool:
    """By its real type: asking an object for its class may run code of the program's."""
    return is_tensor_type(type(value))


def is_parameter(tensor: Any) -> bool:
    return issubclass(type(tensor), _torch().nn.Parameter)


def is_on(tensor: Any, gpu: int) -> bool:
    return tensor.device.type == "cuda" and tensor.device.index == gpu


def is_plain(tensor: Any) -> bool:
    """Whether a tensor is one of numbers.

    The others stand for tensors: fake and functional ones, those of vmap and grad, and those whose class is called for
    each operation. To ask one of them for its memory would run code of the program's, warn, or fail.
    """
    return not _torch()._C._dispatch_keys(tensor).raw_repr() & _standing_for_others()


def plain_parts(tensor: Any) -> Iterator[Any]:
    """The tensor, or those that one of a subclass is made of: a DTensor's local one, a quantized one's scales; and of
    a parameter that DeepSpeed has sharded the shard."""
    if not is_tensor(tensor):
        return
    yield from plain_parts(getattr(tensor, "ds_tensor", None))
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is None or is_plain(tensor):
        yield tensor
        return
    names, _ = flatten(tensor)
    for name in names:
        yield from plain_parts(getattr(tensor, name))


def address_of(tensor: Any) -> int:
    """Where a dense tensor's memory is on a GPU; 0 for others. To be called with torch functions disabled."""
    try:
        if not (is_plain(tensor) and tensor.is_cuda):
            return 0
        storage = tensor.untyped_storage()
    except (RuntimeError, NotImplementedError, ReferenceError, AttributeError, TypeError):
        return 0
    try:
        return storage.data_ptr()
    except RuntimeError:
        library = _native.loaded()
        asleep = None if library is None else library.asleep_block(storage._cdata)
        return 0 if asleep is None else asleep.address


def gradient_of(tensor: Any) -> Any:
    """The gradient that is kept with a parameter, whether or not Python has seen it."""
    try:
        return tensor.grad if is_plain(tensor) and tensor.is_leaf and tensor.requires_grad else None
    except RuntimeError:
        return None


def graph_of(tensor: Any) -> Any:
    """The node of autograd's that made a tensor; None: no graph is kept with it."""
    try:
        return tensor.grad_fn if is_plain(tensor) and tensor.requires_grad else None
    except RuntimeError:
        return None


def _torch() -> Any:
    import torch

    return torch


@functools.cache
def _standing_for_others() -> int:
    """The dispatch keys of tensors that are not plain, as bits."""
    bindings = _torch()._C
    names = ("Python", "Functionalize", "FuncTorchBatched", "FuncTorchGradWrapper")
    return functools.reduce(
        operator.or_, (bindings.DispatchKeySet(getattr(bindings.DispatchKey, name)).raw_repr() for name in names)
    )


def is_context(value: Any) -> bool:
    """Whether an object is the ctx of an autograd.Function, which is the node in the graph, too."""
    return issubclass(type(value), _torch()._C._FunctionBase)


def _kept_by(node: Any) -> list[Any]:
    """The tensors that a node has saved; and those in its attributes, if it is the context of a function of the
    program's."""
    found = saved_tensors(node)
    level = gc.get_referents(node) if is_context(node) else []
    for _ in range(CONTEXT_LEVELS):
        found += [value for value in level if is_tensor(value)]
        level = [inner for value in level if type(value) in (dict, list, tuple) for inner in gc.get_referents(value)]
    return found


def without_torch_functions() -> Any:
    """A context in which looking at a tensor of a subclass runs none of the subclass's code."""
    import torch

    return torch._C.DisableTorchFunctionSubclass()


@functools.cache
def _saving_attributes(kind: type) -> tuple[str, ...]:
    """Those of a class of nodes that hold what it saved."""
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def saved_tensors(node: Any) -> list[Any]:
    """The tensors that a node has saved as they are.

    Unpacking anything else runs a hook that may compute it again or bring it back from the host, which needs memory.
    """
    found = []
    for name in _saving_attributes(type(node)):
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


def saved_behind(tensors: Iterable[Any]) -> list[Any]:
    """The tensors that the graphs of some have saved; of long graphs, some of them."""
    nodes = Walk(MOST_SECONDS).behind([graph_of(tensor) for tensor in tensors])
    return [saved for node in nodes for saved in _kept_by(node)]


class Contents(NamedTuple):
    """Blocks by address, with the tensor that holds each; or the keeper of a pool, by its place."""

    owned: dict[int, Any]  # the first that lies there
    saved: dict[int, Any]  # the first one whose graph has saved it

    def all(self) -> dict[int, Any]:
        """Each block once; its own tensor goes before one whose graph has saved it."""
        return self.saved | self.owned

    @staticmethod
    def together(parts: list[Contents]) -> Contents:
        """Of several objects; where two hold the same it is the first one's."""
        owned: dict[int, Any] = {}
        saved: dict[int, Any] = {}
        for part in reversed(parts):
            owned.update(part.owned)
            saved.update(part.saved)
        return Contents(owned, saved)


def contents_of(tensors: Iterable[Any], extents: Extents) -> Contents:
    """What tensors hold, and keepers of pools; where two hold the same it is the first one's."""
    owned: dict[int, Any] = {}
    saved: dict[int, Any] = {}
    roots = []
    for tensor in tensors:
        if not is_tensor(tensor):
            if (extent := extents.at(kept_pools.place_of(tensor))) is not None:
                owned.setdefault(extent.address, tensor)
            continue
        if (extent := extents.at(address_of(tensor))) is not None:
            owned.setdefault(extent.address, tensor)
        if (node := graph_of(tensor)) is not None:
            roots.append((node, tensor))
    walk = Walk(MOST_SECONDS)
    for root, tensor in roots:
        for node in walk.behind([root]):
            for kept in _kept_by(node):
                if (extent := extents.at(address_of(kept))) is not None:
                    saved.setdefault(extent.address, tensor)
    return Contents(owned, saved)

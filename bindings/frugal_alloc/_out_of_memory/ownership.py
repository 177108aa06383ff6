"""How many bytes of a GPU would be free if somebody let go of something: counted, not guessed.

References are taken away one by one, as the interpreter would, first those of Python objects, then those of autograd's
nodes, then those of the storages; memory counts only where nobody is left. Nothing is changed.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from .. import _native
from .._heap.kept_pools import KeptPools
from .._heap.live_tensors import Walk, address_of, is_on, is_parameter, is_tensor, saved_tensors

BLOCK_BYTES = 512
# Of a graph as long as a leaking run; what was seen until then is a lower bound.
_MOST_SECONDS = 0.03
# Objects looked at for one set of variables: a model and its optimizer have some thousands.
_MOST_OBJECTS = 100_000


def _of_variable() -> int:
    value = object()
    return sys.getrefcount(value)


def _of_parameter(value: object) -> int:
    return sys.getrefcount(value)


def _beside_callers() -> int:
    value = object()
    return _of_parameter(value) - 1


# What sys.getrefcount counts of an object beyond other people's references: a variable of ours and its argument. Since
# Python 3.14 an argument counts only where nothing else is sure to outlive the call.
_OURS = _of_variable()
# Likewise where the variable is a parameter, whose caller has the object in a variable.
_OURS_AS_PARAMETER = _beside_callers()


def rounded(size: int) -> int:
    """As a block of the allocator."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class Graph:
    """What autograd keeps for a backward pass. Its graphs are walked from the results; nothing is unpacked.

    Attributes:
        saved: Each saved tensor as often as it was saved. Those that are saved as they are by Python appear as the
            very same objects.
        is_complete: False: there was more than could be looked at in the time.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.saved: list[Any] = []
        walk = Walk(_MOST_SECONDS)
        self._nodes = set(walk.behind(roots))
        self.is_complete = walk.is_complete

    def keep_untrained(self, trained: set[int]) -> set[int]:
        """From now on it is the nodes from which all ways lead to parameters other than these.

        Args:
            trained: The ids of parameters.

        Returns:
            The ids of the others. A leaf that is no parameter is taken for one whose gradient is wanted.
        """
        import torch

        untrained, users = set(), {}
        wanted = []
        for node in self._nodes:
            for following, _ in node.next_functions:
                users.setdefault(following, []).append(node)
            leaf = getattr(node, "variable", None)
            if leaf is None:
                continue
            if issubclass(type(leaf), torch.nn.Parameter) and id(leaf) not in trained:
                untrained.add(id(leaf))
            else:
                wanted.append(node)
        while wanted:
            node = wanted.pop()
            if node in self._nodes:
                self._nodes.discard(node)
                wanted += users.get(node, ())
        return untrained

    def collect(self, leave_out: Graph | None = None) -> None:
        """Fills `saved`, without what the nodes of another graph have saved."""
        for node in self._nodes - (leave_out._nodes if leave_out is not None else set()):
            # A Python function's context may hold tensors of its own.
            in_context = [value for value in getattr(node, "__dict__", {}).values() if is_tensor(value)]
            self.saved += saved_tensors(node) + in_context


def can_walk() -> bool:
    """Whether this PyTorch tells what was saved without unpacking it."""
    import torch

    saved = getattr(torch._C._autograd, "SavedTensor", None)
    return hasattr(saved, "data") and hasattr(saved, "unpack_hook")


class Ownership:
    """What is owned on one GPU at this moment; to be used at once and dropped."""

    def __init__(self, gpu: int) -> None:
        self._gpu = gpu
        self.pools = KeptPools(_native.loaded(), gpu)

    def freed_by_dropping(self, dropped: list[Any], held: Counter[int]) -> int:
        """The bytes that become free when each object of `dropped` loses one reference.

        Args:
            dropped: The objects; one that two variables hold is in it twice.
            held: By id, how many references the caller has beside those of `dropped`, so that they do not count.
        """
        tensors = _released_tensors(dropped, held)
        return _released_bytes(tensors, self._graph_of_only(tensors), self._gpu, self.pools)

    def freed_by_detaching(self, results: list[Any]) -> int:
        """The bytes that become free if these tensors keep their values and lose the graphs that made them."""
        return _released_bytes([], self._graph_of_only(results), self._gpu, self.pools)

    def saved_for_backward(self) -> tuple[int, int]:
        """The bytes that autograd's graphs alone hold, and of the largest result that they have saved; those that the
        time did not suffice for are not in it."""
        import torch

        if not can_walk():
            return 0, 0
        graph = Graph(root for _, root in self._living_results)
        graph.collect()
        sizes = (data.numel() * data.element_size() for data in graph.saved if type(data) is not torch.nn.Parameter)
        largest = max(sizes, default=0)
        return _released_bytes([], graph, self._gpu, self.pools), largest

    def freed_without_graphs_of_untrained(self, trained: set[int]) -> tuple[int, set[int]]:
        """The bytes that become free if no graph is recorded of what leads to none of these parameters, by their ids,
        and the ids of the parameters that it leads to."""
        if not can_walk():
            return 0, set()
        graph = Graph(root for _, root in self._living_results)
        if not graph.is_complete:
            return 0, set()
        untrained = graph.keep_untrained(trained)
        graph.collect()
        return _released_bytes([], graph, self._gpu, self.pools), untrained

    def _graph_of_only(self, results: list[Any]) -> Graph | None:
        """What autograd keeps for these results alone; None: nothing, or it cannot be known."""
        roots = [result.grad_fn for result in results if result.grad_fn is not None]
        if not roots or not can_walk():
            return None
        own = set(map(id, results))
        graph = Graph(roots)
        others = Graph(root for id_, root in self._living_results if id_ not in own)
        if not graph.is_complete or not others.is_complete:
            return None
        graph.collect(leave_out=others)
        return graph

    @functools.cached_property
    def _living_results(self) -> list[tuple[int, Any]]:
        return living_results()


def _released_tensors(dropped: list[Any], held: Counter[int]) -> list[Any]:
    """The tensors that no Python object would hold any more."""
    waiting, tensors = list(dropped), []
    lost: Counter[int] = Counter()
    ours = held + Counter(map(id, dropped))
    ours.update(map(id, waiting))
    for _ in range(_MOST_OBJECTS):
        if not waiting:
            break
        value = waiting.pop()
        ours[id(value)] -= 1
        lost[id(value)] += 1
        owns_memory = is_tensor(value)
        references = sys.getrefcount(value) - _OURS - ours[id(value)]
        if owns_memory:
            references -= _references_of_cpp(value)
        if lost[id(value)] != references:
            continue
        if owns_memory:
            tensors.append(value)
            ours[id(value)] += 1
            followers = []
        else:
            followers = [referent for referent in gc.get_referents(value) if gc.is_tracked(referent)]
        ours.update(map(id, followers))
        waiting += followers
        del followers
    return tensors


def _references_of_cpp(tensor: Any) -> int:
    """How many Python references the C++ side holds: in recent versions one while others than Python own the tensor."""
    return int(_cpp_holds_references() and tensor._use_count() > 1)


@functools.cache
def _cpp_holds_references() -> bool:
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        leaf = torch.zeros(1, device="cpu", requires_grad=True)
        before = sys.getrefcount(leaf)
        product = leaf * leaf
        return product is not None and sys.getrefcount(leaf) > before


def living_results() -> list[tuple[int, Any]]:
    """Of all results of autograd that something of Python's holds: the id, and the node that made it."""
    import torch

    kinds = set(_subclasses(torch.Tensor))
    tensors = [value for value in gc.get_objects() if type(value) in kinds]
    return [(id(t), t.grad_fn) for t in tensors if t.grad_fn is not None and not _is_only_saved(t, 2)]


def held_for_long(gpu: int, batch: int, passing: set[int]) -> int:
    """The bytes of a GPU that tensors have which Python holds and no pass has made: parameters, their gradients, what
    optimizers keep.

    Args:
        gpu: The number.
        batch: Tensors of so many rows are of a pass.
        passing: The ids of others that are.
    """
    import torch

    library, kinds = _native.loaded(), set(_subclasses(torch.Tensor))
    tensors = [value for value in gc.get_objects() if type(value) in kinds and is_on(value, gpu)]
    own = [one for one in tensors if one.is_leaf and id(one) not in passing and not _is_only_saved(one, 2)]
    sizes = {}
    for one in (*own, *(one.grad for one in own if one.grad is not None)):
        of_batch = one.dim() > 1 and one.shape[0] == batch and not is_parameter(one)
        address = 0 if of_batch else address_of(one)
        if address and (library is None or library.owns(address)):
            sizes[address] = rounded(one.untyped_storage().nbytes())
    return sum(sizes.values())


def _subclasses(kind: type) -> Iterable[type]:
    yield kind
    for subclass in type.__subclasses__(kind):
        yield from _subclasses(subclass)


def _is_only_saved(tensor: Any, ours: int) -> bool:
    """Whether autograd alone holds a tensor, beside `ours` references of the caller's."""
    cpp = _references_of_cpp(tensor)
    return sys.getrefcount(tensor) - _OURS_AS_PARAMETER <= ours + cpp and tensor._use_count() > 1


def _released_bytes(tensors: list[Any], graph: Graph | None, gpu: int, pools: KeptPools) -> int:
    """Of the storages whose every owner goes, but for those whose memory stays with a pool."""
    import torch

    saved = Counter(data._cdata for data in graph.saved) if graph is not None else Counter()
    going = {data._cdata: data for data in graph.saved} if graph is not None else {}
    if graph is not None:
        graph.saved.clear()
    for address in [address for address in going if not _is_only_saved(going[address], 1)]:
        del going[address]
    for gradient in [tensor.grad for tensor in tensors if tensor.is_leaf and tensor.grad is not None]:
        # The list, the variable and what iterates.
        if _is_only_saved(gradient, 3):
            going[gradient._cdata] = gradient
            saved[gradient._cdata] += 1
    going |= {tensor._cdata: tensor for tensor in tensors}
    # A view holds what it is a view of.
    bases = [data._base for data in going.values() if data._is_view()]
    views = Counter(base._cdata for base in bases)
    lists = Counter(map(id, bases))
    for i in range(len(bases)):
        if bases[i]._cdata not in going and _is_only_saved(bases[i], lists[id(bases[i])]):
            lists[id(bases[i])] += 1
            going[bases[i]._cdata] = bases[i]
    bases.clear()
    owners: Counter[int] = Counter()
    storages = {}
    for address, tensor in going.items():
        # Python's wrapper is one owner; what only autograd holds has got one from being looked at.
        if (
            tensor._use_count() - 1 == saved[address] + views[address]
            and is_on(tensor, gpu)
            and tensor.layout is torch.strided
        ):
            storage = tensor.untyped_storage()
            storages[storage._cdata] = storage
            owners[storage._cdata] += 1
    return sum(
        rounded(storage.nbytes())
        for address, storage in storages.items()
        if torch._C._storage_Use_Count(address) - 1 == owners[address] and _goes_with(storage, pools)
    )


def _goes_with(storage: Any, pools: KeptPools) -> bool:
    """Whether a storage's memory is free once the storage is: not where a pool keeps it, nor where it sleeps, nor where
    it was shared with another process."""
    library = _native.loaded()
    if library is not None and not library.owns_its_memory(storage._cdata):
        return False
    try:
        return not pools.keep(storage.data_ptr())
    except RuntimeError:
        return False

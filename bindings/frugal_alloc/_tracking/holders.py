"""Who holds leaked memory: the Python objects that refer to its tensors, or the tensors whose graphs have saved it."""

from __future__ import annotations

import functools
import gc
import types
from typing import Any, NamedTuple

from .._sites import Frame
from . import live_tensors
from .live_tensors import Extent, Extents, GraphMemory
from .names import Name, Names

# Of the tensors of one leak: enough to tell, since they are held alike.
SAMPLED_TENSORS = 6
# The first ones agree as a rule.
AGREEING = 3
MOST_HOLDERS = 4


class Holder(NamedTuple):
    """One that holds tensors, or whose graphs do."""

    name: Name
    tensors: int  # of the leak's that it holds itself, or that hold graphs of the leak
    bytes: int
    has_graph: bool  # a tensor that it holds carries the graph that made it
    is_scalar: bool  # all that were looked at have one element, as a loss has


class Evidence(NamedTuple):
    """What is known of who holds one leak."""

    holders: list[Holder]
    owned_bytes: int  # in tensors that something in Python refers to
    saved_bytes: int  # in the graphs behind tensors, where these hold more; long graphs are not looked at whole
    is_concatenated: bool  # a tensor among them was made by cat or stack
    hooks: list[str]  # functions that are hooks of modules and use a holder's name

    @property
    def is_in_graphs(self) -> bool:
        """Whether graphs hold it, as far as they could be looked at."""
        return self.saved_bytes > 0


NOTHING = Evidence([], 0, 0, False, [])


def find(groups: list[list[tuple[int, int]]], stacks: list[tuple[Frame, ...]] | None = None) -> list[Evidence]:
    """Who holds each group of blocks, given as (address, bytes).

    Args:
        groups: The blocks.
        stacks: Where each group was allocated: a cached function among them is taken for the holder if none is found.

    Holds the GIL, and looks at every object of Python's: some tenths of a second. Neither this call nor its result
    keeps any object alive.
    """
    if not any(groups):
        return [NOTHING] * len(groups)
    was_enabled = gc.isenabled()
    # A collection in between would run code of the user's, and finds nothing to free while all is held here.
    gc.disable()
    # Before there is a search, which would be among them: that cycle would keep all of them alive.
    objects = live_tensors.objects()
    try:
        with live_tensors.without_torch_functions():
            found = _Search(groups, objects).evidence()
            caches = _caches(objects) if stacks else {}
            for number, stack in enumerate(stacks or []):
                if not found[number].holders and groups[number]:
                    found[number] = _with_cache(found[number], stack, caches, groups[number])
            return found
    finally:
        objects.clear()
        if was_enabled:
            gc.enable()


class _Search:
    def __init__(self, groups: list[list[tuple[int, int]]], objects: list[Any]) -> None:
        import torch

        self._groups = groups
        self._extents = Extents(
            Extent(address, size, number) for number, blocks in enumerate(groups) for address, size in blocks
        )
        self._objects = objects
        self._tensors = live_tensors.all_objects(torch.Tensor, self._objects)
        self._names = Names()
        self._owned: list[dict[int, Any]] = [{} for _ in groups]
        self._hooks = _hooks(live_tensors.all_objects(torch.nn.Module, self._objects))

    def evidence(self) -> list[Evidence]:
        for tensor in self._tensors:
            extent = self._extents.at(live_tensors.address_of(tensor))
            if extent is not None:
                self._owned[extent.group].setdefault(extent.address, tensor)
        roots = [tensor for tensor in self._tensors if live_tensors.address_of(tensor) and tensor.grad_fn is not None]
        # A variable's graph is known by the variable, whatever else is in the graph. Else by its latest result: the
        # tensors within it have graphs, too.
        roots.sort(key=lambda tensor: (not self._names.knows(tensor), -_sequence_number(tensor.grad_fn)))
        graphs = GraphMemory(roots, self._extents)
        return [self._evidence_of(number, roots, graphs) for number in range(len(self._groups))]

    def _evidence_of(self, number: int, roots: list[Any], graphs: GraphMemory) -> Evidence:
        blocks = dict(self._groups[number])
        owned = [(tensor, blocks[address]) for address, tensor in self._owned[number].items()]
        holders, named_part = self._holders(owned, {id(roots)})
        owned_bytes = round(sum(size for _, size in owned) * named_part)
        behind: dict[int, int] = {}
        for address, size in blocks.items():
            root = graphs.root_of_block.get(address)
            if root is not None:
                behind[root] = behind.get(root, 0) + size
        saved_bytes = sum(behind.values())
        made_by = {type(tensor.grad_fn).__name__ for tensor, _ in owned[:SAMPLED_TENSORS] if tensor.grad_fn is not None}
        # Autograd keeps the Python objects of tensors that it has saved, so that being known says nothing: what counts
        # is whether something refers to them.
        if saved_bytes > owned_bytes:
            holders, _ = self._holders([(roots[root], size) for root, size in behind.items()], {id(roots), id(owned)})
        else:
            saved_bytes = 0
        names = {holder.name.name for holder in holders}
        hooks = [name for name, used in self._hooks.items() if names & used]
        is_concatenated = any(name.startswith(("CatBackward", "StackBackward")) for name in made_by)
        return Evidence(holders, owned_bytes, saved_bytes, is_concatenated, hooks)

    def _holders(self, held: list[tuple[Any, int]], leave_out: set[int]) -> tuple[list[Holder], float]:
        """Names the holders of a sample, and counts all as if they were held like it; and the part that has a name."""
        if not held:
            return [], 0.0
        step = max(1, len(held) // SAMPLED_TENSORS)
        sample = held[::step][:SAMPLED_TENSORS]
        leave_out = leave_out | {id(self._objects), id(self._tensors), id(held), id(sample), *map(id, held)}
        leave_out.update(map(id, self._owned))
        found: dict[Name, list[tuple[int, bool, bool]]] = {}
        looked_at = 0
        for tensor, size in sample:
            if len(found) == 1 and sum(map(len, found.values())) >= AGREEING:
                break
            looked_at += 1
            name = self._names.of(tensor, leave_out)
            if name is not None:
                found.setdefault(name, []).append((size, tensor.grad_fn is not None, tensor.numel() == 1))
        sample = sample[:looked_at]
        total_bytes = sum(size for _, size in held)
        sampled_bytes = sum(size for _, size in sample) or 1
        holders = [
            Holder(
                name,
                round(len(ones) * len(held) / len(sample)),
                round(sum(size for size, _, _ in ones) * total_bytes / sampled_bytes),
                any(has_graph for _, has_graph, _ in ones),
                all(is_scalar for _, _, is_scalar in ones),
            )
            for name, ones in found.items()
        ]
        named_bytes = sum(size for ones in found.values() for size, _, _ in ones)
        holders.sort(key=lambda holder: -holder.bytes)
        return holders[:MOST_HOLDERS], named_bytes / sampled_bytes


def _caches(objects: list[Any]) -> dict[tuple[str, str], int]:
    """The lines of functions with functools' cache, by file and name. Python does not see who holds its entries."""
    found = {}
    for wrapper in live_tensors.all_objects(type(functools.lru_cache(maxsize=None)(len)), objects):
        code = getattr(getattr(wrapper, "__wrapped__", None), "__code__", None)
        if code is not None and wrapper.cache_info().currsize:
            found[code.co_filename, code.co_name] = code.co_firstlineno
    return found


def _with_cache(
    evidence: Evidence, stack: tuple[Frame, ...], caches: dict[tuple[str, str], int], blocks: list[tuple[int, int]]
) -> Evidence:
    for frame in stack:
        line = caches.get((frame.file, frame.function))
        if line is not None:
            what = f"cache of {frame.function}()"
            name = Name("cache", what, frame.function, "function", frame.file, line)
            holder = Holder(name, len(blocks), sum(size for _, size in blocks), False, False)
            return evidence._replace(holders=[holder])
    return evidence


def _sequence_number(node: Any) -> int:
    """Nodes are numbered as they are made."""
    number = getattr(node, "_sequence_nr", None)
    return number() if number is not None else 0


def _hooks(modules: list[Any]) -> dict[str, set[str]]:
    """The functions that are hooks of modules, and the names that each uses."""
    found: dict[str, set[str]] = {}
    for module in modules:
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            for hook in list(getattr(module, kind, {}).values()):
                function = getattr(hook, "__func__", hook)
                code = getattr(function, "__code__", None)
                if isinstance(code, types.CodeType):
                    found.setdefault(function.__name__, set()).update(code.co_names, code.co_freevars)
    return found

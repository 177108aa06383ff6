"""What is being trained: the parameters, gradients and optimizer state of optimizers that step. It grows on purpose."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from . import live_tensors
from .live_tensors import Extent, Extents
from .steps import ABANDONED_AFTER

# Of the bytes of a finding; the rest may be a buffer that is replaced meanwhile.
LEAST_PART = 0.9
# An optimizer's state is a dictionary by parameter of dictionaries of tensors, and L-BFGS's of lists of them.
DEEPEST_STATE = 4


class Rhythm(NamedTuple):
    """When an optimizer has stepped, in steps of all of them."""

    optimizer: weakref.ref
    latest: int
    longest_gap: int

    def is_kept(self, now: int) -> bool:
        """Whether it may be said to step still; one of an earlier fold, or task, has lost its rhythm."""
        return now - self.latest <= 2 * self.longest_gap + ABANDONED_AFTER


class Trained:
    """The optimizers that step."""

    def __init__(self) -> None:
        self._rhythms: dict[int, Rhythm] = {}
        self._steps = 0

    def note(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self._steps += 1
        before = self._rhythms.get(id(optimizer))
        gap = 0
        # The number may have been another's, which is gone.
        if before is not None and before.optimizer() is optimizer:
            gap = max(before.longest_gap, self._steps - before.latest)
        self._rhythms[id(optimizer)] = Rhythm(weakref.ref(optimizer), self._steps, gap)

    def covers(self, groups: list[list[tuple[int, int, int]]]) -> list[bool]:
        """Whether each group of blocks, given as (address, bytes, epoch of birth), is memory of what is being trained.

        Looks at every object of Python's; keeps none of them.
        """
        optimizers = self._stepping()
        if not optimizers or not any(groups):
            return [False] * len(groups)
        extents = Extents(
            Extent(address, size, number) for number, blocks in enumerate(groups) for address, size, _ in blocks
        )
        covered: dict[int, set[tuple[int, int]]] = {}
        with live_tensors.without_torch_functions():
            for tensor in _tensors_of(optimizers):
                extent = extents.at(live_tensors.address_of(tensor))
                if extent is not None:
                    covered.setdefault(extent.group, set()).add((extent.address, extent.bytes))
        return [
            bool(blocks)
            and sum(size for _, size in covered.get(number, ())) >= LEAST_PART * sum(size for _, size, _ in blocks)
            for number, blocks in enumerate(groups)
        ]

    def _stepping(self) -> list[Any]:
        found = []
        for number, rhythm in list(self._rhythms.items()):
            optimizer = rhythm.optimizer()
            if optimizer is None:
                del self._rhythms[number]
            elif rhythm.is_kept(self._steps):
                found.append(optimizer)
        return found


def _tensors_of(optimizers: list[Any]) -> Iterator[Any]:
    parameters = {}
    for optimizer in optimizers:
        yield from _tensors_in(list(optimizer.state.values()), DEEPEST_STATE)
        for group in optimizer.param_groups:
            parameters.update({id(parameter): parameter for parameter in group["params"]})
    # A model whose new parts are trained while the old ones are frozen is one that grows.
    parameters.update({id(parameter): parameter for parameter in _of_same_models(parameters)})
    for parameter in parameters.values():
        yield parameter
        # Of frozen ones, too, which keep what they had.
        if parameter.is_leaf and parameter.grad is not None:
            yield parameter.grad


def _tensors_in(value: Any, depth: int) -> Iterator[Any]:
    import torch

    if issubclass(type(value), torch.Tensor):
        yield value
    elif depth and isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(part, depth - 1)


def _of_same_models(trained: dict[int, Any]) -> Iterator[Any]:
    """The parameters of all modules that have a trained one, themselves or in a module within."""
    import torch

    modules = [candidate for candidate in live_tensors.objects() if issubclass(type(candidate), torch.nn.Module)]
    parents: dict[int, list[Any]] = {}
    for module in modules:
        for child in _parts(module, "_modules"):
            parents.setdefault(id(child), []).append(module)
    waiting = [module for module in modules if any(id(one) in trained for one in _parts(module, "_parameters"))]
    above: dict[int, Any] = {}
    while waiting:
        module = waiting.pop()
        if id(module) not in above:
            above[id(module)] = module
            waiting.extend(parents.get(id(module), ()))
    yield from _parameters_below(above.values())


def _parameters_below(modules: Iterable[Any]) -> Iterator[Any]:
    waiting, seen = list(modules), set()
    while waiting:
        module = waiting.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield from _parts(module, "_parameters")
            waiting.extend(_parts(module, "_modules"))


def _parts(module: Any, kind: str) -> list[Any]:
    """Without running a line of the module's own code."""
    return [part for part in (module.__dict__.get(kind) or {}).values() if part is not None]

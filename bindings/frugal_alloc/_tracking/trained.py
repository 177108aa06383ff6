"""What is being trained: the parameters, gradients and optimizer state of optimizers that step. It grows on purpose.

What was trained before and is kept, as the models of earlier folds or the learners of an ensemble, may be meant or not:
that is another's to judge.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple

from .._heap import live_objects, live_tensors
from .._heap.live_tensors import Block, Extents
from .training import ABANDONED_AFTER

IS_TRAINED = "is trained"
WAS_TRAINED = "was trained"
# An optimizer's state is a dictionary by parameter of dictionaries of tensors, and L-BFGS's of lists of them.
_DEEPEST_STATE = 4
# Of the bytes of a finding; the rest may be a buffer that is replaced meanwhile.
LEAST_PART = 0.9


class Rhythm(NamedTuple):
    """When an optimizer has stepped, in steps of all of them."""

    optimizer: weakref.ref
    latest: int
    longest_gap: int
    size: tuple[int, int]  # its groups of parameters, and how many the latest has

    def is_kept(self, now: int) -> bool:
        """Whether it may be said to step still; one of an earlier fold, or task, has lost its rhythm."""
        return now - self.latest <= 2 * self.longest_gap + ABANDONED_AFTER


class Trained:
    """The optimizers that step, and the parameters that any has had."""

    def __init__(self) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        self._rhythms: dict[int, Rhythm] = {}
        self._steps = 0
        # As keys: tensors have an equality of their own.
        self._ever: MutableMapping[Any, None] = WeakIdKeyDictionary()

    def note(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self._steps += 1
        before = self._rhythms.get(id(optimizer))
        gap = 0
        groups = optimizer.param_groups
        size = len(groups), len(groups[-1]["params"]) if groups else 0
        # The number may have been another's, which is gone.
        if before is not None and before.optimizer() is optimizer:
            gap = max(before.longest_gap, self._steps - before.latest)
        if not gap or before.size != size:
            self._ever.update(dict.fromkeys(parameters_of(optimizer)))
        self._rhythms[id(optimizer)] = Rhythm(weakref.ref(optimizer), self._steps, gap, size)

    def is_over(self) -> bool:
        """Whether optimizers have stepped, and none of them does any more."""
        return bool(self._steps) and not self._stepping()

    def standings(self, groups: list[list[Block]]) -> list[str]:
        """Of each group of blocks whether it is memory of what is being trained (IS_TRAINED), or of that and of models
        and gradients of what was before (WAS_TRAINED); else "".

        Looks at every object of Python's; keeps none of them.
        """
        if not self._rhythms or not any(groups):
            return [""] * len(groups)
        extents = Extents.of_groups(groups)
        with live_tensors.without_torch_functions():
            now = _found_at(extents, self._now_trained(self._stepping(), extents))
            before = _found_at(extents, _with_gradients(list(self._ever)))
        found = []
        for number, blocks in enumerate(groups):
            least = LEAST_PART * sum(size for _, size, _ in blocks)
            is_trained = now.get(number, {})
            was_trained = is_trained | before.get(number, {})
            if not blocks or sum(was_trained.values()) < least:
                found.append("")
            else:
                found.append(IS_TRAINED if sum(is_trained.values()) >= least else WAS_TRAINED)
        return found

    def _now_trained(self, optimizers: list[Any], extents: Extents) -> Iterator[Any]:
        """The tensors of what optimizers train, but for what nothing can use."""
        trained = {id(parameter): parameter for optimizer in optimizers for parameter in parameters_of(optimizer)}
        # A model whose new parts are trained while the old ones are frozen is one that grows.
        of_models = {id(parameter): parameter for parameter in _of_same_models(trained)}
        alone = [parameter for number, parameter in trained.items() if number not in of_models]
        wanted = [parameter for parameter in alone if extents.at(live_tensors.address_of(parameter)) is not None]
        useless = _held_by_optimizers_only(wanted, [trained, alone])
        for optimizer in optimizers:
            for parameter, state in list(optimizer.state.items()):
                if id(parameter) not in useless:
                    yield from tensors_in_state(state)
        # A buffer may be a parameter that no optimizer has, too.
        kept = [
            parameter
            for number, parameter in of_models.items()
            if number in trained or parameter in self._ever or (parameter.is_leaf and parameter.grad is not None)
        ]
        yield from _with_gradients(kept + [parameter for parameter in alone if id(parameter) not in useless])

    def _stepping(self) -> list[Any]:
        found = []
        for number, rhythm in list(self._rhythms.items()):
            optimizer = rhythm.optimizer()
            if optimizer is None:
                del self._rhythms[number]
            elif rhythm.is_kept(self._steps):
                found.append(optimizer)
        return found


def _found_at(extents: Extents, tensors: Iterable[Any]) -> dict[int, dict[int, int]]:
    """By group, the blocks that the tensors lie in: the bytes by the address."""
    found: dict[int, dict[int, int]] = {}
    for tensor in tensors:
        extent = extents.at(live_tensors.address_of(tensor))
        if extent is not None:
            found.setdefault(extent.group, {})[extent.address] = extent.bytes
    return found


def _held_by_optimizers_only(parameters: list[Any], known: list[Any]) -> set[int]:
    """The ids of those that only optimizers refer to, and what is known to: nothing can compute with them any more."""
    import torch

    if not parameters:
        return set()
    wanted = {id(parameter): parameter for parameter in parameters}
    ours = {id(parameters), id(wanted), *map(id, known)}
    for optimizer in live_objects.of_kinds(torch.optim.Optimizer):
        ours.update((id(optimizer.state), *(id(group["params"]) for group in optimizer.param_groups)))
    for referrer in gc.get_referrers(*parameters):
        if id(referrer) not in ours and not issubclass(type(referrer), types.FrameType):
            for referent in gc.get_referents(referrer):
                wanted.pop(id(referent), None)
    return set(wanted)


def _of_same_models(trained: dict[int, Any]) -> Iterator[Any]:
    """The parameters of all modules that have a trained one, themselves or in a module within."""
    import torch

    modules = live_objects.of_kinds(torch.nn.Module)
    parents: dict[int, list[Any]] = {}
    for module in modules:
        for child in parts_of(module, "_modules"):
            parents.setdefault(id(child), []).append(module)
    waiting = [module for module in modules if any(id(part) in trained for part in parts_of(module, "_parameters"))]
    above = _each_from(waiting, lambda module: parents.get(id(module), ()))
    for module in _each_from(above, lambda module: parts_of(module, "_modules")):
        yield from parts_of(module, "_parameters")


def _each_from(modules: Iterable[Any], next_to: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """The modules, and all that one comes to from them, once each."""
    waiting, found = list(modules), {}
    while waiting:
        module = waiting.pop()
        if id(module) not in found:
            found[id(module)] = module
            waiting.extend(next_to(module))
    return list(found.values())


def parameters_of(optimizer: Any) -> list[Any]:
    """All that it trains."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _with_gradients(parameters: list[Any]) -> list[Any]:
    return [*parameters, *gradients_of(parameters)]


def gradients_of(parameters: Iterable[Any]) -> Iterator[Any]:
    """Of frozen ones, too, which keep what they had."""
    import torch

    for parameter in parameters:
        if isinstance(parameter, torch.Tensor) and parameter.is_leaf and parameter.grad is not None:
            yield parameter.grad


def tensors_in_state(state: Any, depth: int = _DEEPEST_STATE) -> Iterator[Any]:
    """Those in an optimizer's state, or in a part of it."""
    import torch

    if issubclass(type(state), torch.Tensor):
        yield state
    elif depth and isinstance(state, (dict, list, tuple)):
        for part in list(state.values()) if isinstance(state, dict) else state:
            yield from tensors_in_state(part, depth - 1)


def parts_of(module: Any, kind: str) -> list[Any]:
    """What a module has of the kind "_parameters", "_buffers" or "_modules"."""
    return [part for part in (module.__dict__.get(kind) or {}).values() if part is not None]

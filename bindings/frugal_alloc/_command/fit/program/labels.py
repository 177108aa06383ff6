"""Labels the memory of a program's parameters, gradients and optimizer state in the journal."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from .... import _native
from ...._tracking import live_tensors
from ...._tracking.trained import gradients_of, parameters_of, parts_of, tensors_in_state
from ..verdict import GRADIENTS, OPTIMIZER_STATE, PARAMETERS


class Labels:
    """A label holds for the allocation that is live at its address, for all of that one's life."""

    def __init__(self, library: _native.Library) -> None:
        self._library = library
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._has_looked = False
        # An optimizer has parameters of half precision.
        self.trains_half = False

    @property
    def has_optimizers(self) -> bool:
        return bool(self._optimizers)

    def note(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)

    def of_optimizer(self, optimizer: Any) -> None:
        self.note(optimizer)
        parameters = parameters_of(optimizer)
        self.trains_half |= any(_is_half(parameter) for parameter in parameters)
        self._label(parameters, PARAMETERS)
        self._label(gradients_of(parameters), GRADIENTS)
        self._label(tensors_in_state(optimizer.state), OPTIMIZER_STATE)

    def of_gradients(self, optimizer: Any) -> None:
        """A step may let them go."""
        self._label(gradients_of(parameters_of(optimizer)), GRADIENTS)

    def look_around_once(self) -> None:
        """Before the first backward pass: what an optimizer does not have, as a frozen model's parameters."""
        if not self._has_looked:
            self._has_looked = True
            self.look_around()

    def look_around(self) -> None:
        """Of all modules and optimizers there are. Looks at every object of Python's: a tenth of a second."""
        import torch

        for candidate in gc.get_objects():
            if issubclass(type(candidate), torch.nn.Module):
                owned = [*parts_of(candidate, "_parameters"), *parts_of(candidate, "_buffers")]
                self._label(owned, PARAMETERS)
                self._label(gradients_of(owned), GRADIENTS)
        for optimizer in list(self._optimizers):
            self.of_optimizer(optimizer)

    def _label(self, tensors: Iterable[Any], component: str) -> None:
        with live_tensors.without_torch_functions():
            for tensor in tensors:
                for part in _plain_parts(tensor):
                    address = live_tensors.address_of(part)
                    if address:
                        self._library.journal_label(address, component)


def _is_half(parameter: Any) -> bool:
    import torch

    return getattr(parameter, "dtype", None) in (torch.bfloat16, torch.float16)


def _plain_parts(tensor: Any) -> Iterator[Any]:
    """The tensor, or those that one of a subclass is made of: a DTensor's local one, a quantized one's scales."""
    if not live_tensors.is_tensor(tensor):
        return
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is None or live_tensors.is_plain(tensor):
        yield tensor
        return
    names, _ = flatten(tensor)
    for name in names:
        yield from _plain_parts(getattr(tensor, name))

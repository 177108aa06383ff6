"""Sees PyTorch's operators, and has values computed; which, and with what, is for its subclasses to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from . import wrapped
from .computation import Call

# Nothing to compute: they make memory without values, or see to a tensor's memory and not to what is in it.
_WITHOUT_VALUES = {
    "_local_scalar_dense",
    "_pin_memory",
    "_resize_output_",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "is_pinned",
    "new_empty",
    "new_empty_strided",
    "record_stream",
    "resize_",
    "set_",
}


class ValuesMode(TorchDispatchMode):
    """Sees every operator of its thread, and of the autograd threads that work for it."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not by PyTorch's wrapper, which imports the compiler, some seconds, in each process at its first operator."""
        return False

    def takes(self, tensor: torch.Tensor) -> bool:
        """Whether it computes with such tensors; with others among the arguments an operator runs as it would."""
        raise NotImplementedError

    def carry_out(self, call: Call) -> Any:
        """The result of an operator that is to run on a GPU, with the values that it is to have."""
        raise NotImplementedError

    def start(self, uncompiled: Callable) -> None:
        """From here on, in this process; call it once torch is imported."""
        uncompiled(ValuesMode.__torch_dispatch__, calls_ours_only=True)
        wrapped.start()
        wrapped.enter_in_all_threads(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return self._run_higher_order(func, args, kwargs)
        call = Call(func, args, kwargs)
        if any(is_traceable_wrapper_subclass(tensor) for tensor in call.tensors):
            return NotImplemented  # its operators are seen in turn, on plain tensors
        if not call.is_on_gpu() or call.name in _WITHOUT_VALUES or not all(map(self.takes, call.tensors)):
            return func(*args, **kwargs)
        return self.carry_out(call)

    def _run_higher_order(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """An operator that takes functions, as flex_attention is: its plain form, whose operators the mode sees."""
        plain = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
        if plain is None:
            return func(*args, **kwargs)
        with self:
            return plain(*args, **kwargs)

"""One call of an operator, as the CPU computes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

from .host_memory import address, host_view, is_cuda
from .operands import on_host

# Nothing to compute: they make memory without values, or see to a tensor's memory and not to what is in it.
WITHOUT_VALUES = {
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


def _without_output_type(func: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """A product that names the type of its result, as a GPU alone has it, by the product in that type."""
    place = [argument.name for argument in func._schema.arguments].index("out_dtype")
    wide = tree_map(lambda value: value.to(args[place]) if isinstance(value, torch.Tensor) else value, args)
    plain = func.overloadpacket.out if func._overloadname.endswith("out") else func.overloadpacket.default
    return plain, (*wide[:place], *wide[place + 1 :]), kwargs


def adapt(func: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """The CPU's operator, and the arguments, that give the values that the GPU's gives with these."""
    name = func._schema.name.split("::")[1]
    if func._overloadname in ("dtype", "dtype_out") and name in ("mm", "bmm", "addmm", "baddbmm"):
        return _without_output_type(func, args, kwargs)
    if "pin_memory" in kwargs:
        kwargs["pin_memory"] = False
    if name in ("_softmax", "_log_softmax") and args[2]:
        # On a GPU alone, half precision can become float within the operator.
        return func, (args[0].float(), args[1], False), kwargs
    if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        # Likewise on the way back; storing the result narrows it.
        return func, (*args[:3], args[0].dtype), kwargs
    return func, args, kwargs


def leaves(*values: Any) -> list:
    """What an operator's arguments or results are made of: these are values, or lists of them. As tree_leaves(), which
    takes any structure and ten times as long."""
    result = []
    for value in values:
        if isinstance(value, (list, tuple)):
            result += leaves(*value)
        elif isinstance(value, dict):
            result += leaves(*value.values())
        else:
            result.append(value)
    return result


@functools.cache
def _written_arguments(func: Any) -> list[tuple[int, str]]:
    """Their places and names; the place of one that has a name alone is after all others."""
    arguments = func._schema.arguments
    is_written = [argument.alias_info is not None and argument.alias_info.is_write for argument in arguments]
    return [
        (len(arguments) if argument.kwarg_only else i, argument.name)
        for i, argument in enumerate(arguments)
        if is_written[i]
    ]


def written(func: Any, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    """The tensors among the arguments that the operator writes."""
    values = [args[i] if i < len(args) else kwargs.get(name) for i, name in _written_arguments(func)]
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]


class Computation:
    """One call of an operator, ready to be computed on the CPU, once or at each replay of a graph.

    Holds views of memory and no CUDA tensor, so that it keeps nothing alive that the program lets go.
    """

    def __init__(self, func: Any, args: tuple, kwargs: dict, read: Callable[[Any], Any] = on_host):
        """``read`` gives each argument as the CPU's operator takes it."""
        self.name = func._schema.name
        args, kwargs = tree_map(read, (args, kwargs))
        self.func, self.args, self.kwargs = adapt(func, args, kwargs)
        self.outputs: list[tuple[int, torch.Tensor]] = []

    def store_into(self, result: Any, besides: set[int]) -> None:
        """Names the tensors that get the values, but for those in the memory of ``besides``."""
        for i, leaf in enumerate(leaves(result)):
            if isinstance(leaf, torch.Tensor) and leaf.numel() > 0 and address(leaf) not in besides:
                self.outputs.append((i, host_view(leaf) if is_cuda(leaf) else leaf))

    def compute(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    def compute_and_store(self) -> Exception | None:
        """Returns why it could not be computed, if so."""
        try:
            values = leaves(self.compute())
        except (NotImplementedError, RuntimeError, IndexError) as error:
            return error
        for i, output in self.outputs:
            if isinstance(values[i], torch.Tensor) and values[i].shape == output.shape:
                output.copy_(values[i])
        return None


def run_higher_order(mode: Any, func: Any, args: tuple, kwargs: dict) -> Any:
    """An operator that takes functions, as flex_attention is: runs as its plain form, whose operators the mode sees."""
    plain = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    if plain is None:
        return func(*args, **kwargs)
    with mode:
        return plain(*args, **kwargs)


def has_operators_of_its_own(tensor: torch.Tensor) -> bool:
    """Whether it is a subclass that wraps others, whose operators are seen in turn, on plain tensors."""
    return is_traceable_wrapper_subclass(tensor)

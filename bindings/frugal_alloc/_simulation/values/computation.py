"""One call of an operator, and how the CPU computes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from .host_memory import address, is_cuda, on_host, placed


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


def tensors_of(*values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(*values) if isinstance(leaf, torch.Tensor)]


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


class Call:
    """An operator with its arguments, and, once it has run, what it has made."""

    def __init__(self, func: Any, args: tuple, kwargs: dict) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.name = func._schema.name.split("::")[1]
        self._values = leaves(args, kwargs)
        self.tensors = [leaf for leaf in self._values if isinstance(leaf, torch.Tensor)]
        self.result: Any = None

    def run(self) -> Any:
        self.result = self.func(*self.args, **self.kwargs)
        return self.result

    def is_on_gpu(self) -> bool:
        return any(is_cuda(leaf) or (isinstance(leaf, torch.device) and leaf.type == "cuda") for leaf in self._values)

    @functools.cached_property
    def inputs(self) -> list[torch.Tensor]:
        """The GPU's tensors among the arguments."""
        return [tensor for tensor in self.tensors if is_cuda(tensor)]

    @functools.cached_property
    def targets(self) -> list[torch.Tensor]:
        """The tensors among the arguments that the operator writes."""
        args, kwargs = self.args, self.kwargs
        return tensors_of([args[i] if i < len(args) else kwargs.get(name) for i, name in _written_arguments(self.func)])

    @functools.cached_property
    def fresh(self) -> list[torch.Tensor]:
        """Of the results, those that are not in the memory of a target."""
        in_place = {address(tensor) for tensor in self.targets}
        return [tensor for tensor in tensors_of(self.result) if address(tensor) not in in_place]

    @functools.cached_property
    def outputs(self) -> list[torch.Tensor]:
        """What it has written. Some operators, as those on lists of tensors, return nothing of it."""
        return [*self.targets, *self.fresh]

    def is_view(self) -> bool:
        read = {address(tensor) for tensor in self.tensors}
        return not self.targets and all(address(output) in read for output in self.fresh)

    def compute_first(self, read: Callable[[Any], Any] = on_host) -> Any:
        """In the place of the GPU's operator, whose result is as large as values say."""
        device = self.kwargs.get("device") or self.inputs[0].device
        return tree_map(lambda value: placed(value, device), Computation(self, read).compute())


def _without_output_type(func: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """A product that names the type of its result, as a GPU alone has it, by the product in that type."""
    place = [argument.name for argument in func._schema.arguments].index("out_dtype")
    wide = tree_map(lambda value: value.to(args[place]) if isinstance(value, torch.Tensor) else value, args)
    plain = func.overloadpacket.out if func._overloadname.endswith("out") else func.overloadpacket.default
    return plain, (*wide[:place], *wide[place + 1 :]), kwargs


def _adapt(name: str, func: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """The CPU's operator, and the arguments, that give the values that the GPU's gives with these."""
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


class Computation:
    """A call, ready to be computed on the CPU, once or at each replay of a graph.

    Holds views of memory and no CUDA tensor, so that it keeps nothing alive that the program lets go. If the call has
    run, what it has made gets the values.
    """

    def __init__(self, call: Call, read: Callable[[Any], Any] = on_host):
        """``read`` gives each argument as the CPU's operator takes it."""
        self.name = call.func._schema.name
        args, kwargs = tree_map(read, (call.args, call.kwargs))
        self._func, self._args, self._kwargs = _adapt(call.name, call.func, args, kwargs)
        in_place = {address(tensor) for tensor in call.targets}
        self._outputs = [
            (i, on_host(leaf))
            for i, leaf in enumerate(leaves(call.result))
            if isinstance(leaf, torch.Tensor) and leaf.numel() > 0 and address(leaf) not in in_place
        ]

    def compute(self) -> Any:
        return self._func(*self._args, **self._kwargs)

    def compute_and_store(self) -> Exception | None:
        """Returns why it could not be computed, if so."""
        try:
            values = leaves(self.compute())
        except (NotImplementedError, RuntimeError, IndexError) as error:
            return error
        for i, output in self._outputs:
            if isinstance(values[i], torch.Tensor) and values[i].shape == output.shape:
                output.copy_(values[i])
        return None

"""Computes small integers and booleans on the simulated GPU, so that what programs decide by them is right.

Sizes, lengths, masks, positions, and whether a sequence has ended are integers and booleans of little memory. With the
mode on, each operator runs as it would; where its result is such a tensor, the CPU then computes it over the same
memory. Of what it computes with,

* integers are read up to ``MOST_READ``: a program has loaded them, or they were computed here;
* floating-point numbers are read up to ``MOST_FLOATS``, if they were loaded or computed here;
* all else is made up (``made_up``): a model's output, above all. What is computed with that is finite.

Floating-point results are computed if they and all that they are computed with are that small: a mean of lengths, the
scale of a scaler. Small ones that would need more are made up; large ones are left as they are.

Inside a CUDA graph nothing is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from . import collectives, ctc_loss, failed_backward, graphs, made_up, printing
from .computation import (
    WITHOUT_VALUES,
    Computation,
    has_operators_of_its_own,
    leaves,
    run_higher_order,
    written,
)
from .contents import Content, contents
from .host_memory import address, host_view, is_cuda, is_kept, is_plain, placed
from .operands import on_host
from .plausible import ANSWERED

MOST_BYTES = 1 << 20  # of an integer or boolean result
MOST_FLOATS = 64 << 10  # bytes of floating-point results, and of what they are computed with
MOST_READ = 16 << 20  # bytes of integers
MOST_ELEMENTS = 1 << 24  # of what one operator is computed with: some tens of milliseconds

# They move what is there, whatever it is.
MOVING = {"_to_copy", "clone", "copy_"}
# They hold what the host has put there.
LOADED = {"lift_fresh"}
# The shape of the result depends on values, so the CPU has to go first. What selects is answered by ``plausible``.
SHAPED_BY_VALUES = {"bincount", "equal", "repeat_interleave"}
# Of numbers that are made up: they are equal, as two runs of the same model would be, and none is a NaN.
EQUAL = {"eq": True, "ne": False}


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class _Random:
    """The CPU's random numbers of this mode, beside those of the program, which go on as without it."""

    def __init__(self) -> None:
        self._state = torch.Generator().manual_seed(0).get_state()

    def __enter__(self) -> None:
        self._programs = torch.get_rng_state()
        torch.set_rng_state(self._state)

    def __exit__(self, *_: Any) -> None:
        self._state = torch.get_rng_state()
        torch.set_rng_state(self._programs)


_random = _Random()


class _Call:
    """An operator's call that has run: what it read and what it made."""

    def __init__(self, func: Any, args: tuple, kwargs: dict, result: Any):
        self.func, self.args, self.kwargs, self.result = func, args, kwargs, result
        self.name = func._schema.name.split("::")[1]
        self.targets = written(func, args, kwargs)
        self.inputs = [leaf for leaf in leaves(args, kwargs) if is_cuda(leaf)]
        self.results = [leaf for leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
        in_place = {address(tensor) for tensor in self.targets}
        self.fresh = [tensor for tensor in self.results if address(tensor) not in in_place]
        self.outputs = [*self.targets, *self.fresh]

    def is_view(self) -> bool:
        read = {address(tensor) for tensor in self.inputs}
        return not self.targets and all(address(output) in read for output in self.outputs)

    def of(self) -> Content:
        """What the outputs are if they are computed."""
        known = all(contents.of(tensor) is Content.KNOWN for tensor in self.inputs)
        return Content.KNOWN if known else Content.MADE_UP

    def is_readable(self, tensor: torch.Tensor) -> bool:
        most = MOST_FLOATS if _is_float(tensor) else MOST_READ
        return contents.of(tensor) is not Content.LEFT and _bytes([tensor]) <= most

    def read(self, value: Any) -> Any:
        """An argument as it is computed with."""
        if not is_cuda(value):
            return on_host(value)
        return host_view(value) if self.name in MOVING or self.is_readable(value) else made_up.in_place_of(value)

    def is_wanted(self) -> bool:
        """Whether its outputs are small, and some are integers or all is there that they are computed with."""
        integers = [tensor for tensor in self.outputs if not _is_float(tensor)]
        floats = [tensor for tensor in self.outputs if _is_float(tensor)]
        if integers and _bytes(floats) <= MOST_FLOATS:
            return all(_bytes([tensor]) <= MOST_BYTES for tensor in integers)
        read = [tensor for tensor in self.inputs if _is_float(tensor)]
        if _bytes(floats) > MOST_FLOATS or _bytes(read) > MOST_FLOATS:
            return False
        return self.name in MOVING or all(self.is_readable(tensor) for tensor in self.inputs)

    def is_cheap(self) -> bool:
        return sum(tensor.numel() for tensor in (*self.inputs, *self.outputs)) <= MOST_ELEMENTS


def _make_up(call: _Call) -> None:
    """Nobody computes the call: small results that it made are made up.

    What it wrote in place is as it was. Of a small tensor that is a number as good as any other: what counts the
    gradients that are not finite, say, has still found none.
    """
    fresh = {id(tensor) for tensor in call.fresh}
    for tensor in filter(is_cuda, call.outputs):
        is_small = _bytes([tensor]) <= (MOST_FLOATS if _is_float(tensor) else MOST_BYTES)
        if is_small and id(tensor) in fresh:
            host_view(tensor).copy_(made_up.in_place_of(tensor))
        has_numbers = is_small and (id(tensor) in fresh or contents.of(tensor) is not Content.LEFT)
        contents.tell(tensor, Content.MADE_UP if has_numbers else Content.LEFT)


def _compute(call: _Call) -> None:
    content = call.of()
    computation = Computation(call.func, call.args, call.kwargs, call.read)
    computation.store_into(call.result, besides={address(tensor) for tensor in call.targets})
    random = torch.Tag.nondeterministic_seeded in call.func.tags
    if random:
        with _random:
            error = computation.compute_and_store()
    else:
        error = computation.compute_and_store()
    if error is not None:
        _make_up(call)
        return
    for tensor in call.outputs:
        if is_cuda(tensor):
            if content is Content.MADE_UP and _is_float(tensor) and call.name not in MOVING:
                host_view(tensor).nan_to_num_()
            contents.tell(tensor, content)


def _settle(call: _Call) -> None:
    """Sees to the values of what the call has made."""
    if call.name in MOVING and not (call.is_wanted() and call.is_cheap()):
        source = call.args[1] if call.name == "copy_" else call.args[0]
        content = contents.of(source) if is_cuda(source) else Content.KNOWN
        for tensor in call.outputs:
            if is_cuda(tensor):
                contents.tell(tensor, content if is_kept(tensor) else Content.LEFT)
    elif call.is_wanted() and call.is_cheap():
        answer = EQUAL.get(call.name)
        floats = [tensor for tensor in call.inputs if _is_float(tensor)]
        if answer is not None and len(floats) == 2 and call.of() is Content.MADE_UP and not call.targets:
            host_view(call.result).fill_(answer)
            contents.tell(call.result, Content.MADE_UP)
        else:
            _compute(call)
    else:
        _make_up(call)


class _ComputeSmall(TorchDispatchMode):
    """Sees every operator of its thread, and of the autograd threads that work for it."""

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Programs are compiled under it; what is compiled runs as on a GPU, and is not computed."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not by PyTorch's wrapper, which imports the compiler, some seconds, in each process at its first operator."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return run_higher_order(self, func, args, kwargs)
        values = leaves(args, kwargs)
        tensors = [leaf for leaf in values if isinstance(leaf, torch.Tensor)]
        if any(has_operators_of_its_own(tensor) for tensor in tensors):
            return NotImplemented
        on_gpu = any(is_cuda(leaf) or (isinstance(leaf, torch.device) and leaf.type == "cuda") for leaf in values)
        if not on_gpu or not all(is_plain(tensor) for tensor in tensors):
            return func(*args, **kwargs)
        if collectives.is_collective(func):
            return collectives.run_and_tell(func, args, kwargs)
        name = func._schema.name.split("::")[1]
        if name in SHAPED_BY_VALUES:
            return _compute_first(func, args, kwargs)
        result = func(*args, **kwargs)
        if name not in WITHOUT_VALUES:
            self._after(name, func, args, kwargs, result)
        return result

    def _after(self, name: str, func: Any, args: tuple, kwargs: dict, result: Any) -> None:
        results = [leaf for leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
        if not results or not all(is_plain(tensor) for tensor in results):
            return
        call = _Call(func, args, kwargs, result)
        if name in LOADED:
            contents.tell(result, Content.KNOWN)
        elif name in ANSWERED:
            for tensor in call.fresh:
                contents.tell(tensor, call.of())
        elif not call.is_view():
            if graphs.is_capturing():
                for tensor in call.outputs:
                    contents.tell(tensor, Content.LEFT)
                return
            with torch.no_grad():
                _settle(call)


def _compute_first(func: Any, args: tuple, kwargs: dict) -> Any:
    call = _Call(func, args, kwargs, None)
    content, device = call.of(), call.inputs[0].device
    result = Computation(func, args, kwargs, call.read).compute()
    result = tree_map(lambda value: placed(value, device), result)
    for tensor in leaves(result):
        if isinstance(tensor, torch.Tensor):
            contents.tell(tensor, content)
    return result


_mode = _ComputeSmall()


def _run_thread(wrapped: Callable, thread: threading.Thread) -> None:
    with _mode:
        wrapped(thread)


def start(uncompiled: Callable) -> None:
    """From here on, small tensors of this process have values; call it once torch is imported."""
    uncompiled(_ComputeSmall.__torch_dispatch__, calls_ours_only=True)
    ctc_loss.start()
    failed_backward.start()
    graphs.watch()
    printing.start()
    # Modes are per thread, and threads do not inherit them.
    graphs.wrap(threading.Thread, "_bootstrap_inner", _run_thread)
    _mode.__enter__()

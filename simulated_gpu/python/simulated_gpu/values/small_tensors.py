"""Computes small integers and booleans on the simulated GPU, so that what programs decide by them is right.

Sizes, lengths, masks, positions, and whether a sequence has ended are integers and booleans of little memory. With the
mode on, each operator runs as it would; where its result is such a tensor, the CPU then computes it over the same
memory. Of what it computes with,

* integers are read up to ``MOST_READ``: a program has loaded them, or they were computed here;
* floating-point numbers are read up to ``MOST_FLOATS``, if they were loaded or computed here;
* all else is made up (``contents.made_up``): a model's output, above all. What is computed with that is finite.

Floating-point results are computed if they and all that they are computed with are that small: a mean of lengths, the
scale of a scaler. Small ones that would need more are made up; large ones are left as they are.

Inside a CUDA graph nothing is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from . import collectives, graphs
from .computation import Call, Computation, host_view, is_cuda, is_kept, is_plain, on_host, tensors_of
from .contents import Content, contents, made_up
from .mode import ValuesMode
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


def _record(tensors: Iterable[torch.Tensor], content: Content) -> None:
    for tensor in filter(is_cuda, tensors):
        contents.record(tensor, content)


_random_state: torch.Tensor | None = None


@contextlib.contextmanager
def _own_random_numbers() -> Iterator[None]:
    """The CPU's, of this mode, beside those of the program, which go on as without it."""
    global _random_state
    state_of_program = torch.get_rng_state()
    torch.set_rng_state(torch.Generator().manual_seed(0).get_state() if _random_state is None else _random_state)
    try:
        yield
    finally:
        _random_state = torch.get_rng_state()
        torch.set_rng_state(state_of_program)


def _content_if_computed(call: Call) -> Content:
    known = all(contents.of(tensor) is Content.KNOWN for tensor in call.inputs)
    return Content.KNOWN if known else Content.MADE_UP


def _is_readable(tensor: torch.Tensor) -> bool:
    most = MOST_FLOATS if _is_float(tensor) else MOST_READ
    return contents.of(tensor) is not Content.LEFT and _bytes([tensor]) <= most


def _reader(call: Call) -> Callable[[Any], Any]:
    """Gives each of the call's arguments as it is computed with."""

    def read(value: Any) -> Any:
        is_there = not is_cuda(value) or call.name in MOVING or _is_readable(value)
        return on_host(value) if is_there else made_up(value)

    return read


def _is_wanted(call: Call) -> bool:
    """Whether its outputs are small, and some are integers or all is there that they are computed with."""
    if sum(tensor.numel() for tensor in (*call.inputs, *call.outputs)) > MOST_ELEMENTS:
        return False
    integers = [tensor for tensor in call.outputs if not _is_float(tensor)]
    floats = [tensor for tensor in call.outputs if _is_float(tensor)]
    if integers and _bytes(floats) <= MOST_FLOATS:
        return all(_bytes([tensor]) <= MOST_BYTES for tensor in integers)
    if max(_bytes(floats), _bytes(filter(_is_float, call.inputs))) > MOST_FLOATS:
        return False
    return call.name in MOVING or all(map(_is_readable, call.inputs))


def _compares_what_is_made_up(call: Call) -> bool:
    is_comparison = call.name in EQUAL and sum(map(_is_float, call.inputs)) == 2
    return is_comparison and _content_if_computed(call) is Content.MADE_UP and not call.targets


def _make_up(call: Call) -> None:
    """Nobody computes the call: small results that it made are made up.

    What it wrote in place is as it was. Of a small tensor that is a number as good as any other: what counts the
    gradients that are not finite, say, has still found none.
    """
    fresh = {id(tensor) for tensor in call.fresh}
    for tensor in filter(is_cuda, call.outputs):
        is_small = _bytes([tensor]) <= (MOST_FLOATS if _is_float(tensor) else MOST_BYTES)
        if is_small and id(tensor) in fresh:
            host_view(tensor).copy_(made_up(tensor))
        has_numbers = is_small and (id(tensor) in fresh or contents.of(tensor) is not Content.LEFT)
        contents.record(tensor, Content.MADE_UP if has_numbers else Content.LEFT)


def _compute(call: Call) -> None:
    content = _content_if_computed(call)
    computation = Computation(call, _reader(call))
    is_random = torch.Tag.nondeterministic_seeded in call.func.tags
    with _own_random_numbers() if is_random else contextlib.nullcontext():
        error = computation.compute_and_store()
    if error is not None:
        _make_up(call)
        return
    for tensor in filter(is_cuda, call.outputs):
        if content is Content.MADE_UP and _is_float(tensor) and call.name not in MOVING:
            host_view(tensor).nan_to_num_()
    _record(call.outputs, content)


def _settle(call: Call) -> None:
    """Sees to the values of what the call has made."""
    if _is_wanted(call):
        if _compares_what_is_made_up(call):
            host_view(call.result).fill_(EQUAL[call.name])
            contents.record(call.result, Content.MADE_UP)
        else:
            _compute(call)
    elif call.name in MOVING:
        source = call.args[1] if call.name == "copy_" else call.args[0]
        content = contents.of(source) if is_cuda(source) else Content.KNOWN
        for tensor in call.outputs:
            _record([tensor], content if is_kept(tensor) else Content.LEFT)
    else:
        _make_up(call)


def _compute_first(call: Call) -> Any:
    result = call.compute_first(_reader(call))
    _record(tensors_of(result), _content_if_computed(call))
    return result


class SmallTensors(ValuesMode):
    @classmethod
    def is_infra_mode(cls) -> bool:
        """Programs are compiled under it; what is compiled runs as on a GPU, and is not computed."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def takes(self, tensor: torch.Tensor) -> bool:
        return is_plain(tensor)

    def carry_out(self, call: Call) -> Any:
        if collectives.is_collective(call.func):
            return collectives.run_and_tell(call)
        if call.name in SHAPED_BY_VALUES:
            return _compute_first(call)
        result = call.run()
        if not all(map(is_plain, tensors_of(result))):
            return result
        if call.name in LOADED:
            _record(call.outputs, Content.KNOWN)
        elif call.name in ANSWERED:
            _record(call.fresh, _content_if_computed(call))
        elif call.outputs and not call.is_view():
            if graphs.is_capturing():
                _record(call.outputs, Content.LEFT)
            else:
                with torch.no_grad():
                    _settle(call)
        return result


def start() -> None:
    """From here on, small tensors of this process have values; call it once torch is imported."""
    graphs.watch()
    SmallTensors().start()

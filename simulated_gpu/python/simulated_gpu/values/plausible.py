"""Plausible answers for programs on the simulated GPU where nobody has computed a value (``--values none``).

With kernels that do nothing, whatever a program reads back from the GPU is what happened to lie in that memory. Where
such a value decides over sizes or over going on, an answer is made up here instead, the same in every run; where it was
computed (``small_tensors``), the answer is the true one:

* Operators whose result is as large as values say (``nonzero`` and all that is built on it, as selection by a mask,
  ``torchvision.ops.nms`` and printing; ``unique``): of n elements, between a quarter and three quarters are selected,
  at least one, and equally many for every equal n. The indices are 0.
* Checks succeed: ``any`` is false and ``all`` is true.
* ``item()`` of a number that is not finite is 0, and so is that of an integer that a kernel would have written.
* A sparse tensor that is coalesced keeps all its entries.
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from . import graphs
from .computation import host_view, placed
from .contents import Content, contents
from .guesses import note

MOST_LOOKED_AT = 16 << 20  # bytes

_library: torch.library.Library | None = None


def selected(n: int) -> int:
    """How many of ``n`` elements are said to be selected."""
    spread = (n * 2654435761) % 2**32 / 2**32  # Fibonacci hashing
    return min(n, max(1, int(n * (0.25 + 0.5 * spread))))


def _is_computed(tensor: torch.Tensor) -> bool:
    """Whether the memory holds values that were computed, few enough to be looked at."""
    few = tensor.numel() * tensor.element_size() <= MOST_LOOKED_AT
    return few and contents.has(tensor) and not graphs.is_capturing()


def _operator(name: str) -> Callable | None:
    """None: this PyTorch does not have it."""
    packet_name, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet_name), overload or "default", None)


def _computed_or(name: str, operator: Callable, answer: Callable) -> Callable:
    """The operator's own result where values are there, otherwise the answer."""
    packet_name = name.partition(".")[0]

    def computed_or_answered(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        is_computed = _is_computed(tensor)
        if not is_computed or contents.recorded(tensor) is Content.MADE_UP:
            note(packet_name)
        if not is_computed:
            return answer(tensor, *args, **kwargs)
        return tree_map(lambda value: placed(value, tensor.device), operator(host_view(tensor), *args, **kwargs))

    return computed_or_answered


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros(selected(tensor.numel()), tensor.dim(), dtype=torch.long, device=tensor.device)


def _nonzero_out(tensor: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    is_computed = _is_computed(tensor)
    if not is_computed or contents.recorded(tensor) is Content.MADE_UP:
        note("nonzero")
    if is_computed:
        found = host_view(tensor).nonzero()
        host_view(out.resize_(found.shape)).copy_(found)
        return out
    return out.resize_(selected(tensor.numel()), tensor.dim()).zero_()


def _unique_elements(tensor: torch.Tensor, *_, **__) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The elements that are kept, to which of them each belongs, and how often each occurs."""
    kept = selected(tensor.numel())
    counts = torch.ones(kept, dtype=torch.long, device=tensor.device)
    return tensor.new_zeros(kept), torch.zeros(tensor.shape, dtype=torch.long, device=tensor.device), counts


def _unique_slices(tensor: torch.Tensor, dim: int, *_, **__) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As for elements, with the slices along a dimension."""
    shape = list(tensor.shape)
    inverse = torch.zeros(shape[dim], dtype=torch.long, device=tensor.device)
    shape[dim] = selected(shape[dim])
    return tensor.new_zeros(shape), inverse, torch.ones(shape[dim], dtype=torch.long, device=tensor.device)


def _unique(tensor: torch.Tensor, *_, **__) -> tuple[torch.Tensor, torch.Tensor]:
    return _unique_elements(tensor)[:2]


def _unique_consecutive(
    tensor: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _unique_elements(tensor) if dim is None else _unique_slices(tensor, dim)


def _reduced(tensor: torch.Tensor, dim: int | list[int] | None, keepdim: bool) -> list[int]:
    """The shape that is left when these dimensions, or all of them, are reduced."""
    if dim is None:
        dim = list(range(tensor.dim()))
    reduced = {d % max(tensor.dim(), 1) for d in (dim if isinstance(dim, (list, tuple)) else [dim])}
    return [1 if i in reduced else n for i, n in enumerate(tensor.shape) if keepdim or i not in reduced]


def _check(answer: bool):
    def reduce(tensor: torch.Tensor, dim: int | list[int] | None = None, keepdim: bool = False) -> torch.Tensor:
        dtype = torch.uint8 if tensor.dtype == torch.uint8 else torch.bool
        return torch.full(_reduced(tensor, dim, keepdim), answer, dtype=dtype, device=tensor.device)

    return reduce


def _item(tensor: torch.Tensor) -> bool | int | float | complex:
    if contents.recorded(tensor) is Content.LEFT:
        return tensor.new_zeros((), device="cpu").item()
    value = tensor.cpu().item()
    return 0.0 if isinstance(value, float) and not math.isfinite(value) else value


def _coalesce(tensor: torch.Tensor) -> torch.Tensor:
    """Equal indices would be one, and how many are equal is up to values: said to be none."""
    parts = tensor._indices().clone(), tensor._values().clone()
    return torch.sparse_coo_tensor(*parts, tensor.shape, is_coalesced=True, check_invariants=False)


# Answers on tensors that nobody has computed.
_ANSWERS = {
    "nonzero": _nonzero,
    "_unique": _unique,
    "_unique2": _unique_elements,
    "unique_dim": _unique_slices,
    "unique_consecutive": _unique_consecutive,
    "unique_dim_consecutive": _unique_slices,
    "any": _check(False),
    "any.dim": _check(False),
    "any.dims": _check(False),
    "all": _check(True),
    "all.dim": _check(True),
    "all.dims": _check(True),
}
ANSWERED = {name.partition(".")[0] for name in _ANSWERS}


def _functions() -> dict[str, Callable]:
    operators = {name: _operator(name) for name in _ANSWERS}
    own = {name: _computed_or(name, there, _ANSWERS[name]) for name, there in operators.items() if there is not None}
    return own | {"nonzero.out": _nonzero_out, "_local_scalar_dense": _item}


def _hide_from_compilation(functions: Iterable[Callable]) -> None:
    """Lets torch.compile take our functions for PyTorch's own, which it leaves alone while it looks at a program's.

    They run, as the operators that they stand in for, between the parts of a program that it compiles.
    """
    for function in (*globals().values(), *_ANSWERS.values(), *functions):
        if isinstance(function, types.FunctionType):
            function.__code__ = function.__code__.replace(co_filename=torch._compile.__file__)


def start() -> None:
    """From here on, these operators on CUDA tensors have plausible results; call it once torch is imported."""
    global _library
    if _library is not None:
        return
    functions = _functions()
    _hide_from_compilation(functions.values())
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the real ones are replaced
        for name, function in functions.items():
            _library.impl(name, function, "CUDA")
        _library.impl("_coalesce", _coalesce, "SparseCUDA")

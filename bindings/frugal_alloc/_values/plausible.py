"""Plausible answers for programs on the simulated GPU whose values are not computed (``--values none``).

With kernels that do nothing, whatever a program reads back from the GPU is what happened to lie in that memory. Where
such a value decides over sizes or over going on, an answer is made up here instead, the same in every run:

* Operators whose result is as large as values say (``nonzero`` and all that is built on it, as selection by a mask,
  ``torchvision.ops.nms`` and printing; ``unique``): of n elements, between a quarter and three quarters are selected,
  at least one, and equally many for every equal n. The indices are 0.
* Checks succeed: ``any`` is false and ``all`` is true.
* ``item()`` of a number that is not finite is 0.
"""

from __future__ import annotations

import math
import types
import warnings

import torch

_library: torch.library.Library | None = None


def selected(n: int) -> int:
    """How many of ``n`` elements are said to be selected."""
    spread = (n * 2654435761) % 2**32 / 2**32  # Fibonacci hashing
    return min(n, max(1, int(n * (0.25 + 0.5 * spread))))


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros(selected(tensor.numel()), tensor.dim(), dtype=torch.long, device=tensor.device)


def _nonzero_out(tensor: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
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
    value = tensor.cpu().item()
    return 0.0 if isinstance(value, float) and not math.isfinite(value) else value


_ANSWERS = {
    "nonzero": _nonzero,
    "nonzero.out": _nonzero_out,
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
    "_local_scalar_dense": _item,
}


def _hide_from_compilation() -> None:
    """Lets torch.compile take our functions for PyTorch's own, which it leaves alone while it looks at a program's.

    They run, as the operators that they stand in for, between the parts of a program that it compiles.
    """
    for function in (*globals().values(), *_ANSWERS.values()):
        if isinstance(function, types.FunctionType):
            function.__code__ = function.__code__.replace(co_filename=torch._compile.__file__)


def start() -> None:
    """From here on, these operators on CUDA tensors have plausible results; call it once torch is imported."""
    global _library
    if _library is not None:
        return
    _hide_from_compilation()
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the real ones are replaced
        for name, answer in _ANSWERS.items():
            _library.impl(name, answer, "CUDA")

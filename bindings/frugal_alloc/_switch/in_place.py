"""Memory that stays where it is: :func:`frugal_alloc.keep_in_place` and :func:`frugal_alloc.let_move`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .. import _native

if TYPE_CHECKING:
    import torch

# No GPU has addresses beyond, and C has no larger numbers.
_MOST = 1 << 63


def keep(tensor: torch.Tensor) -> tuple[int, int]:
    """See :func:`frugal_alloc.keep_in_place`."""
    kept = _range_of(tensor)
    _move(*kept, keep=True)
    return kept


def let_move(kept: torch.Tensor | tuple[int, int]) -> None:
    """See :func:`frugal_alloc.let_move`."""
    _move(*(_checked(kept) if isinstance(kept, tuple) else _range_of(kept)), keep=False)


def _move(address: int, size: int, *, keep: bool) -> None:
    # Where nothing was enabled, nothing moves.
    library = _native.loaded()
    if library is not None and size:
        library.keep_in_place(address, size, keep)


def _range_of(tensor: Any) -> tuple[int, int]:
    """The address and the size of what lies between a tensor's first byte and its last."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise _native.FrugalAllocError(f"{type(tensor).__name__} is not a tensor; give a tensor on a GPU")
    if not tensor.is_cuda or tensor.layout != torch.strided:
        kind = tensor.device.type if not tensor.is_cuda else str(tensor.layout)
        raise _native.FrugalAllocError(f"this tensor is {kind}; give one on a GPU that is not sparse")
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        raise _native.FrugalAllocError("this tensor has no memory; give one that was made outside of tracing") from None
    if tensor.numel() == 0:
        return address, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return address, (last + 1) * tensor.element_size()


def _checked(kept: tuple) -> tuple[int, int]:
    try:
        address, size = map(operator.index, kept)
    except (TypeError, ValueError):
        address = size = -1
    if not (0 <= address < _MOST and 0 <= size < _MOST):
        raise _native.FrugalAllocError(f"{kept!r:.60} is not what keep_in_place() returned")
    return address, size

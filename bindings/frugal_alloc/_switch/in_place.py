"""Memory that stays where it is: :func:`frugal_alloc.keep_in_place`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _native

if TYPE_CHECKING:
    import torch


class Kept:
    """A range of addresses whose physical memory does not move; see :func:`frugal_alloc.keep_in_place`."""

    def __init__(self, address: int, size: int) -> None:
        #: Of the tensor's first byte.
        self.address = address
        #: In bytes, from the first to the last.
        self.size = size
        # Where nothing was enabled, nothing moves.
        self._library = _native.loaded() if size else None
        if self._library is not None:
            self._library.keep_in_place(address, size, True)

    def release(self) -> None:
        """Lets the memory move again. Does nothing at a second call."""
        library, self._library = self._library, None
        if library is not None:
            library.keep_in_place(self.address, self.size, False)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def keep(tensor: torch.Tensor) -> Kept:
    """See :func:`frugal_alloc.keep_in_place`."""
    return Kept(*_range_of(tensor))


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
    except RuntimeError as error:  # it was made in tracing, or sleeps
        reason = str(error).splitlines()[0]
        raise _native.FrugalAllocError(f"this tensor has no memory that could be kept: {reason}") from None
    if tensor.numel() == 0:
        return address, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return address, (last + 1) * tensor.element_size()

"""Numbers in the place of those that nobody has computed: finite, positive, the same in every run."""

from __future__ import annotations

import torch

# Numbers are taken in turn from one pool, since an equal answer each time lets a loop wait for another one forever. As
# many as a vocabulary of 256 Ki for a batch of 16.
POOL = 1 << 22
STEP = 1_000_003  # a prime: the pool is gone through before a place comes again

_pool: torch.Tensor | None = None
_place = 0


def numbers(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Between a quarter and three quarters, so that logarithm, quotient and exponential are finite, too.

    They serve as probabilities and as what is compared, so they differ; beyond ``POOL`` of them, one stands for all.
    """
    global _pool, _place
    count = shape.numel()
    if _pool is None:
        _pool = torch.rand(POOL, generator=torch.Generator().manual_seed(0), device="cpu") / 2 + 0.25
    if count > POOL:
        return torch.full((), 0.5, dtype=dtype, device="cpu").expand(shape)
    _place = (_place + STEP) % POOL
    start = min(_place, POOL - count)
    return _pool[start : start + count].view(shape).to(dtype)


def in_place_of(tensor: torch.Tensor) -> torch.Tensor:
    """For a GPU's tensor whose memory was left as it was; of integers, which may be indices or sizes, zeros."""
    if tensor.is_floating_point() or tensor.is_complex():
        return numbers(tensor.shape, tensor.dtype)
    return torch.zeros((), dtype=tensor.dtype, device="cpu").expand(tensor.shape)

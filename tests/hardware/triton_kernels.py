"""A kernel of Triton's, which wants its source in a file."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _double(source, target, count, block: tl.constexpr):
    places = tl.program_id(0) * block + tl.arange(0, block)
    mask = places < count
    tl.store(target + places, tl.load(source + places, mask=mask) * 2, mask=mask)


def doubled(numbers: torch.Tensor) -> Any:
    result = torch.empty_like(numbers)
    _double[(triton.cdiv(numbers.numel(), _BLOCK),)](numbers, result, numbers.numel(), block=_BLOCK)
    return result

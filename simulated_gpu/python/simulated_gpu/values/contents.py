"""What is known of the contents of the simulated GPU's memory where only small tensors are computed; and numbers in the
place of those that nobody has computed: finite, positive, the same in every run."""

from __future__ import annotations

import enum

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Content(enum.Enum):
    KNOWN = "what it would be on a GPU"
    MADE_UP = "computed of numbers that were made up"
    LEFT = "left as it was, by a kernel that did nothing"


class Contents:
    """By storage: the last that was written there counts for all of it.

    Of a storage that nobody has told of, as one that a kernel of the program's own has written, integers are taken for
    what was loaded, and floating-point numbers, of which most are a model's, for left.
    """

    def __init__(self) -> None:
        self._recorded: dict[int, tuple[StorageWeakRef, Content]] = {}
        self._tidy_at = 1024

    def record(self, tensor: torch.Tensor, content: Content) -> None:
        storage = tensor.untyped_storage()
        if content is Content.LEFT and tensor.is_floating_point():
            self._recorded.pop(storage._cdata, None)
            return
        self._recorded[storage._cdata] = (StorageWeakRef(storage), content)
        if len(self._recorded) > self._tidy_at:
            self._recorded = {key: value for key, value in self._recorded.items() if not value[0].expired()}
            self._tidy_at = max(1024, 2 * len(self._recorded))

    def recorded(self, tensor: torch.Tensor) -> Content | None:
        # The reference keeps the storage's own address from being used again, though not its memory.
        entry = self._recorded.get(tensor.untyped_storage()._cdata)
        return None if entry is None or entry[0].expired() else entry[1]

    def of(self, tensor: torch.Tensor) -> Content:
        unknown = tensor.is_floating_point() or tensor.is_complex()
        return self.recorded(tensor) or (Content.LEFT if unknown else Content.KNOWN)

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether it is known that the memory holds something."""
        return self.recorded(tensor) in (Content.KNOWN, Content.MADE_UP)


contents = Contents()


# --- Made up.

# Numbers are taken in turn from one pool, since an equal answer each time lets a loop wait for another one forever. As
# many as a vocabulary of 256 Ki for a batch of 16.
POOL = 1 << 22
STEP = 1_000_003  # a prime: the pool is gone through before a place comes again

_pool: torch.Tensor | None = None
_place = 0


def _made_up_numbers(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
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


def made_up(tensor: torch.Tensor) -> torch.Tensor:
    """For a GPU's tensor whose memory was left as it was; of integers, which may be indices or sizes, zeros."""
    if tensor.is_floating_point() or tensor.is_complex():
        return _made_up_numbers(tensor.shape, tensor.dtype)
    return torch.zeros((), dtype=tensor.dtype, device="cpu").expand(tensor.shape)

"""What is known of the contents of the simulated GPU's memory where only small tensors are computed."""

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
        self._told: dict[int, tuple[StorageWeakRef, Content]] = {}
        self._tidy_at = 1024

    def tell(self, tensor: torch.Tensor, content: Content) -> None:
        storage = tensor.untyped_storage()
        if content is Content.LEFT and tensor.is_floating_point():
            self._told.pop(storage._cdata, None)
            return
        self._told[storage._cdata] = (StorageWeakRef(storage), content)
        if len(self._told) > self._tidy_at:
            self._told = {key: value for key, value in self._told.items() if not value[0].expired()}
            self._tidy_at = max(1024, 2 * len(self._told))

    def told(self, tensor: torch.Tensor) -> Content | None:
        # The reference keeps the storage's own address from being used again, though not its memory.
        entry = self._told.get(tensor.untyped_storage()._cdata)
        return None if entry is None or entry[0].expired() else entry[1]

    def of(self, tensor: torch.Tensor) -> Content:
        unknown = tensor.is_floating_point() or tensor.is_complex()
        return self.told(tensor) or (Content.LEFT if unknown else Content.KNOWN)

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether it is known that the memory holds something."""
        return self.told(tensor) in (Content.KNOWN, Content.MADE_UP)


contents = Contents()

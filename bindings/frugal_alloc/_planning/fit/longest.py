"""Has loaders give the largest of their batches first, so that the first steps are those that need most."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

_reordered = 0


def reordered() -> int:
    """How many iterations over a loader were put in order."""
    return _reordered


def take_first() -> None:
    """Of each DataLoader that is iterated over from now on, whose dataset has items by index and whose sampler ends."""
    from torch.utils.data import DataLoader, IterableDataset

    indices = DataLoader._index_sampler

    @functools.wraps(indices.fget)
    def largest_first(self: Any) -> Any:
        sampler = indices.fget(self)
        is_known = isinstance(sampler, Sized) and not isinstance(self.dataset, IterableDataset)
        return _LargestFirst(self.dataset, sampler) if is_known else sampler

    DataLoader._index_sampler = property(largest_first)


class _LargestFirst:
    """The batches, or single items, of an epoch of a sampler; a batch is as large as if each item were its largest."""

    def __init__(self, dataset: Any, sampler: Any) -> None:
        self._dataset, self._sampler = dataset, sampler

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        global _reordered
        _reordered += 1
        size_of = functools.cache(lambda index: _size(self._dataset[index]))

        def size(indices: Any) -> int:
            batch = indices if isinstance(indices, (list, tuple)) else [indices]
            return len(batch) * max(map(size_of, batch), default=0)

        return iter(sorted(self._sampler, key=size, reverse=True))


def _size(item: Any) -> int:
    """Of a text its letters, of a tensor its numbers, of a collection the sum of its members'."""
    if hasattr(item, "numel"):
        return item.numel()
    if hasattr(item, "nbytes"):
        return item.nbytes
    if isinstance(item, (str, bytes)):
        return len(item)
    if isinstance(item, Mapping):
        return sum(map(_size, item.values()))
    return sum(map(_size, item)) if isinstance(item, Sequence) else 1

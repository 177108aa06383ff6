"""How much memory the batches of each size took at their peak."""

from __future__ import annotations

from typing import Any

# The largest are those that run out of memory.
MOST_SIZES = 8
# A batch is a few levels of dictionaries, tuples and dataclass-like objects; deeper lies data, not structure.
DEEPEST = 4


class BatchPeaks:
    """For the largest batch sizes of the training: the most memory that a step held."""

    def __init__(self) -> None:
        #: Of the batch that a loader has given last; None: it had no tensor.
        self.current: int | None = None
        #: Peak in bytes by batch size.
        self.peaks: dict[int, int] = {}

    def note(self, peak_bytes: int) -> None:
        """The step with the current batch has ended."""
        size = self.current
        if size is None or peak_bytes <= self.peaks.get(size, 0):
            return
        self.peaks[size] = peak_bytes
        if len(self.peaks) > MOST_SIZES:
            del self.peaks[min(self.peaks)]


def size_of(batch: Any, tensor_type: type, depth: int = DEEPEST) -> int | None:
    """The first dimension of the first tensor in a batch; None if there is none. Runs no code of the user's.

    A list of tensors without a dimension in common, as detectors take, counts its entries.
    """
    if isinstance(batch, tensor_type):
        return batch.shape[0] if batch.dim() else None
    if depth == 0:
        return None
    if isinstance(batch, dict):
        values = batch.values()
    elif isinstance(batch, (list, tuple)):
        if _is_list_of_images(batch, tensor_type):
            return len(batch)
        values = batch
    else:
        values = getattr(batch, "__dict__", {}).values()
    for value in values:
        size = size_of(value, tensor_type, depth - 1)
        if size is not None:
            return size
    return None


def _is_list_of_images(batch: Any, tensor_type: type) -> bool:
    """Tensors of three dimensions each, with a channel first: a batch that was not stacked."""
    if len(batch) == 0 or not all(isinstance(entry, tensor_type) and entry.dim() == 3 for entry in batch):
        return False
    return all(entry.shape[0] in (1, 3, 4) for entry in batch)

"""Memory over the steps of a run, and by the size of its batches, in bounded space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .._native import Library


MOST_POINTS = 2000
# New GPUs come into use in the first steps.
LOOK_FOR_GPUS_EVERY = 64


class Point(NamedTuple):
    """Bytes at the end of a step; the peak is that since the point before of the same GPU."""

    gpu: int
    step: int
    epoch: int
    phase: str
    allocated_bytes: int
    peak_bytes: int
    reserved_bytes: int


class Timeline:
    """One point for each GPU and step; with many steps, one for every 2, 4, 8 ... of them."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.points: list[Point] = []
        self.epoch_ends: list[tuple[int, int]] = []
        self._stride = 1
        self._calls = 0
        self._gpus: list[int] = []
        self._peaks: dict[int, int] = {}

    def note(self, step: int, epoch: int, phase: str) -> int:
        """Called at the end of each step; returns the highest peak of any GPU since the call before."""
        if self._calls % LOOK_FOR_GPUS_EVERY == 0 or not self._gpus:
            self._gpus = self._library.gpus()
        self._calls += 1
        is_due = self._calls % self._stride == 0
        highest = 0
        for gpu in self._gpus:
            # No call of the user's resets it.
            peak, in_use, held = self._library.take_peak(gpu)
            if is_due:
                since = max(peak, self._peaks.pop(gpu, 0), in_use)
                self.points.append(Point(gpu, step, epoch, phase, in_use, since, held))
            else:
                self._peaks[gpu] = max(peak, self._peaks.get(gpu, 0))
            highest = max(highest, peak)
        if len(self.points) > MOST_POINTS:
            self._halve()
        return highest

    def end_epoch(self, step: int, epoch: int) -> None:
        """The epoch with this number has ended after so many steps."""
        self.epoch_ends.append((step, epoch))
        if len(self.epoch_ends) > MOST_POINTS:
            self.epoch_ends = self.epoch_ends[1::2]

    def _halve(self) -> None:
        """Each two neighbouring points of a GPU become the later one, with the higher peak."""
        merged: list[Point] = []
        waiting: dict[int, Point] = {}
        for point in self.points:
            earlier = waiting.pop(point.gpu, None)
            if earlier is None:
                waiting[point.gpu] = point
            else:
                merged.append(point._replace(peak_bytes=max(point.peak_bytes, earlier.peak_bytes)))
        merged.extend(waiting.values())
        self.points = merged
        self._stride *= 2


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

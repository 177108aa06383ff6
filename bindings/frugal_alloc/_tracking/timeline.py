"""Memory over the steps of a run, and by the size of its batches, in bounded space."""

from __future__ import annotations

import collections
import statistics
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from .._heap.live_tensors import is_parameter, is_plain, is_tensor
from .._program.frame_variables import variables
from .._program.users_code import OURS, owner

if TYPE_CHECKING:
    from .._native import Library


MOST_POINTS = 2000
# New GPUs come into use in the first steps.
LOOK_FOR_GPUS_EVERY = 64
_MOST_ENDS = 64
_FEWEST_ENDS = 3


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
        self._at_ends: collections.deque[dict[int, int]] = collections.deque(maxlen=_MOST_ENDS)

    def note_end(self) -> None:
        """An epoch, or a window of steps or calls that stands for one, has ended."""
        self._at_ends.append({gpu: self._library.stats(gpu)["allocated_bytes"] for gpu in self._library.gpus()})

    def grown_bytes(self, gpu: int) -> int:
        """By how much the memory in use at the ends has grown in the later half of them."""
        in_use = [at_end.get(gpu, 0) for at_end in self._at_ends]
        later = in_use[len(in_use) // 2 :]
        return max(0, later[-1] - later[0]) if len(later) >= _FEWEST_ENDS else 0

    def note_backward(self) -> tuple[int, int]:
        """Called at both ends of each backward; returns the peak since the call before, or a point, and what is in use,
        of the GPU with the highest."""
        highest = 0, 0
        for gpu in self._gpus or self._library.gpus():
            peak, in_use, _ = self._library.take_peak(gpu)
            self._peaks[gpu] = max(peak, self._peaks.get(gpu, 0))
            highest = max(highest, (peak, in_use))
        return highest

    def note(self, step: int, epoch: int, phase: str) -> None:
        """Called at the end of each step."""
        if self._calls % LOOK_FOR_GPUS_EVERY == 0 or not self._gpus:
            self._gpus = self._library.gpus()
        self._calls += 1
        is_due = self._calls % self._stride == 0
        for gpu in self._gpus:
            # No call of the user's resets it.
            peak, in_use, held = self._library.take_peak(gpu)
            if is_due:
                since = max(peak, self._peaks.pop(gpu, 0), in_use)
                self.points.append(Point(gpu, step, epoch, phase, in_use, since, held))
            else:
                self._peaks[gpu] = max(peak, self._peaks.get(gpu, 0))
        if len(self.points) > MOST_POINTS:
            self._halve()

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
# A peak is noted if it is larger by more than one such part than those that were.
_NOTED_PART = 50
_MOST_FRAMES = 60
_MOST_LENGTHS = 64
_OF_MATRIX = 2
# A batch is a few levels of dictionaries, tuples and dataclass-like objects; deeper lies data, not structure.
DEEPEST = 4

#: A variable: of a function by its file and first line, and its name.
Variable = tuple[str, int, str]
#: Stands for the batch of a loader.
OF_LOADER: Variable = ("", 0, "")


class Size(NamedTuple):
    """Of a tensor that a variable held."""

    rows: int
    columns: int  # of a matrix
    bytes: int


class Peak(NamedTuple):
    """Of a backward that has run whole."""

    bytes: int
    begun_bytes: int  # in use at its beginning: all that the forward has kept
    left_bytes: int  # at its end
    had_stepped: bool  # whether an optimizer had
    sizes: dict[Variable, Size]  # of what the running functions held at its end

    def batch(self, now: dict[Variable, int], batch: int) -> int:
        """Its samples, where those that hold `batch` rows now held as many; 0: it is not known."""
        rows = {self.sizes[one].rows for one, count in now.items() if count == batch and one in self.sizes}
        return min(rows - {0}, default=0)


class BatchPeaks:
    """The most memory that backwards held, and how large their tensors were: those of the highest peaks,
    each of another size."""

    def __init__(self) -> None:
        #: Of the first tensor in the batch that a loader has given last; empty: it had none.
        self.current: tuple[int, ...] = ()
        #: How many of its data set's entries the loader puts into a batch; 0: that is not known.
        self.entries = 0
        self._lengths: collections.deque[int] = collections.deque(maxlen=_MOST_LENGTHS)
        self.peaks: list[Peak] = []
        #: In use when the latest backward had ended.
        self.left_bytes = 0
        #: In use when it began.
        self.begun_bytes = 0

    def give(self, iterator: Any, batch: Any, tensor_type: type) -> None:
        """A loader has given a batch."""
        self.current = shape_of(batch, tensor_type) or ()
        self.entries = getattr(getattr(iterator, "_index_sampler", None), "batch_size", 0) or 0
        self._lengths.extend(self.current[1:2])

    @property
    def usual_length(self) -> int:
        """Of the second dimension, in half of the latest batches; 0: it is not known."""
        return int(statistics.median(self._lengths)) if self._lengths else 0

    def note(
        self, peak_bytes: int, left_bytes: int, had_stepped: bool, of_loader: int, frame: FrameType | None
    ) -> None:
        """A backward has ended, for which `frame` waits. `of_loader`: the samples of a loader's batch, or 0."""
        self.left_bytes = left_bytes
        highest = max((peak.bytes for peak in self.peaks), default=0)
        is_known = any(peak.sizes[OF_LOADER].rows == of_loader for peak in self.peaks)
        if is_known and peak_bytes <= highest + highest // _NOTED_PART:
            return
        sizes = sizes_in(frame) | {OF_LOADER: Size(of_loader, 0, 0)}
        self.peaks = [peak for peak in self.peaks if peak.sizes != sizes]
        self.peaks.append(Peak(peak_bytes, self.begun_bytes, left_bytes, had_stepped, sizes))
        self.peaks = sorted(self.peaks, key=lambda peak: peak.bytes)[-MOST_SIZES:]


def sizes_in(frame: FrameType | None) -> dict[Variable, Size]:
    """Of the tensors in the variables of running functions; keeps none of them."""
    sizes: dict[Variable, Size] = {}
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if owner(code.co_filename) != OURS:
            for name, value in variables(frame).items():
                if is_tensor(value) and is_plain(value) and value.dim() and not is_parameter(value):
                    columns = value.shape[1] if value.dim() == _OF_MATRIX else 0
                    size = value.numel() * value.element_size()
                    sizes[code.co_filename, code.co_firstlineno, name] = Size(value.shape[0], columns, size)
        frame = frame.f_back
    return sizes


def shape_of(batch: Any, tensor_type: type, depth: int = DEEPEST) -> tuple[int, ...] | None:
    """Of the first tensor in a batch; None if there is none. Runs no code of the user's.

    A list of tensors without a dimension in common, as detectors take, counts its entries.
    """
    if isinstance(batch, tensor_type):
        return tuple(batch.shape) or None
    if depth == 0:
        return None
    if isinstance(batch, dict):
        values = batch.values()
    elif isinstance(batch, (list, tuple)):
        if _is_list_of_images(batch, tensor_type):
            return (len(batch),)
        values = batch
    else:
        values = getattr(batch, "__dict__", {}).values()
    found = (shape_of(value, tensor_type, depth - 1) for value in values)
    return next((shape for shape in found if shape is not None), None)


def _is_list_of_images(batch: Any, tensor_type: type) -> bool:
    """Tensors of three dimensions each, with a channel first: a batch that was not stacked."""
    if len(batch) == 0 or not all(isinstance(entry, tensor_type) and entry.dim() == 3 for entry in batch):
        return False
    return all(entry.shape[0] in (1, 3, 4) for entry in batch)

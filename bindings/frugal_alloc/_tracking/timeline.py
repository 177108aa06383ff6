"""Memory over the steps of a run, in bounded space."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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

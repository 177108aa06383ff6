"""The histories that benches play: recorded ones, generated ones, and recordings of the user's own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, MAX_SIZE, History

from . import generators

GIB = 1 << 30
HANDLE_BYTES = 2 << 20
# So much more than a part of the live memory is always granted: below some GiB, a part of it is less than a handle.
GRANTED_BYTES = 4 * HANDLE_BYTES
# Of capacities over the most live memory, the one in which nothing is short.
AMPLE = 4.0
# How far behind the host the streams are in little memory, if the history does not say: some launches.
DEFAULT_STREAM_LAG = 32
# How much of the GPU that it is scaled to a history fills when most is live.
SCALED_PART = 0.8

# Allocators round to this anyway.
_GRAIN_BYTES = 512
# Of an event's fields.
_SIZE = 2
_HISTORIES = Path(__file__).resolve().parent / "histories"


@dataclasses.dataclass(frozen=True)
class Workload:
    """A history, and how benches play it."""

    history: History
    # Rather than generated.
    is_recorded: bool

    @property
    def name(self) -> str:
        return self.history.name

    @property
    def live_bytes(self) -> int:
        """When most is live."""
        return self.history.peak_live_bytes

    def capacity(self, ratio: float) -> int:
        """That part of the most live memory, or four handles more than it, in whole handles."""
        least = self.live_bytes + GRANTED_BYTES
        return -(-max(least, round(self.live_bytes * ratio)) // HANDLE_BYTES) * HANDLE_BYTES

    def stream_lag(self, ratio: float) -> int:
        """In ample memory the streams have no work but what a recording says."""
        return 0 if ratio == AMPLE else self.history.stream_lag or DEFAULT_STREAM_LAG

    def scaled(self, memory: int) -> Workload:
        """The same program with all tensors larger or smaller by one factor: it fills SCALED_PART of that memory."""
        history = self.history
        factor = SCALED_PART * memory / history.peak_live_bytes
        events = bytearray(history.events)
        for place, event in enumerate(EVENT.iter_unpack(history.events)):
            if event[0] == ALLOCATE:
                size = max(1, round(event[_SIZE] * factor / _GRAIN_BYTES)) * _GRAIN_BYTES
                changed = (*event[:_SIZE], min(size, MAX_SIZE), *event[_SIZE + 1 :])
                EVENT.pack_into(events, place * EVENT.size, *changed)
        made = dataclasses.replace(history, name=f"{history.name}@{memory / GIB:g}GiB", events=bytes(events))
        return Workload(made, self.is_recorded)


def names() -> list[str]:
    return [*_recordings(), *generators.GENERATORS]


def load(chosen: list[str] | None = None) -> list[Workload]:
    """The histories of those names(), in their order, or all."""
    recordings = _recordings()
    workloads = []
    for name in chosen or names():
        if name in recordings:
            workloads.append(from_file(recordings[name], name))
        else:
            workloads.append(Workload(generators.generate(name), is_recorded=False))
    return workloads


def from_file(path: Path, name: str) -> Workload:
    """A recording under a name. Raises HistoryError."""
    history = history_files.read(path)
    return Workload(dataclasses.replace(history, name=name), is_recorded=True)


def _recordings() -> dict[str, Path]:
    """By name, in the order of their names."""
    files = sorted(path for path in _HISTORIES.iterdir() if path.suffix in (".xz", ".gz"))
    return {path.name.split(".")[0]: path for path in files}

"""Collects what a generated program allocates and frees, as a history that the replay plays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, FREE, MAX_EVENTS, History

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class BadScale(ValueError):
    """A history cannot be so long; the message says how long it can be."""


class Recorder:
    """A program in the making: its allocations and frees in the order of the host's calls. Sizes in bytes.

    A tensor is named by the number that allocate() returns. Streams are numbered from 0, the default stream.
    """

    def __init__(self, stream_lag: int = 0) -> None:
        """With `stream_lag`, the streams may be replayed that many events behind the host: see History."""
        # As of EVENT: operation, allocation, size, stream, late stream, and the event before which that is done, or 0.
        self._events: list[tuple[int, int, int, int, int, int]] = []
        # By tensor.
        self._sizes: list[int] = []
        self._live: set[int] = set()
        self._late: dict[int, int] = {}
        self._stream_lag = stream_lag
        self._warm_up_end: int | None = None
        self._turn_ends: list[int] = []
        self.live_bytes = 0
        self._stream_count = 1

    @property
    def event_count(self) -> int:
        return len(self._events)

    def size_of(self, tensor: int) -> int:
        return self._sizes[tensor]

    def allocate(self, size: int, stream: int = 0) -> int:
        # Of an allocation without bytes, the allocator would not hear.
        size = max(size, 1)
        tensor = len(self._sizes)
        self._sizes.append(size)
        self._live.add(tensor)
        self._stream_count = max(self._stream_count, stream + 1)
        self._add((ALLOCATE, tensor, size, stream, 0, 0), grown=size)
        return tensor

    def allocate_all(self, sizes: Iterable[int], stream: int = 0) -> list[int]:
        return [self.allocate(size, stream) for size in sizes]

    def free(self, tensor: int) -> None:
        """Frees a tensor that only the stream it was allocated on has used, or the host has waited for the others."""
        self._live.remove(tensor)
        self._add((FREE, tensor, 0, 0, 0, 0), grown=-self._sizes[tensor])

    def free_late(self, tensor: int, late_stream: int, after: int) -> None:
        """Frees a tensor that `late_stream` goes on using for `after` more events, at least for the streams' lag.

        What one stream does ends in order: the caller must see to it that later frees on a stream end no earlier.
        """
        self._live.remove(tensor)
        ready = len(self._events) + max(after, self._stream_lag, 1)
        self._stream_count = max(self._stream_count, late_stream + 1)
        self._late[ready] = self._late.get(ready, 0) + self._sizes[tensor]
        self._add((FREE, tensor, 0, 0, late_stream, ready), grown=0)

    def temporary(self, size: int, stream: int = 0) -> None:
        """A tensor that is freed at once, such as an operator's workspace."""
        self.free(self.allocate(size, stream))

    def free_all(self, tensors: list[int]) -> None:
        """In the order given; empties the list."""
        for tensor in tensors:
            self.free(tensor)
        tensors.clear()

    def rounds(self, count: int, warm_up: int) -> Iterator[int]:
        """Numbers so many rounds, of which the first `warm_up` are the warm-up."""
        for number in range(count):
            if number == warm_up:
                self.end_warm_up()
            yield number

    def end_warm_up(self) -> None:
        """What comes from here on is the steady state, as far as the program has one."""
        self._warm_up_end = len(self._events)

    def end_iteration(self) -> None:
        """One iteration of a fixed loop is over: each repeats the same calls."""
        self._turn_ends.append(len(self._events))

    def history(self, name: str) -> History:
        total = len(self._events)
        return History(
            name=name,
            events=b"".join(EVENT.pack(*event, min(ready, total)) for *event, ready in self._events),
            initial_count=0,
            allocation_count=len(self._sizes),
            stream_count=self._stream_count,
            warm_up_end=self._warm_up_end,
            turn_ends=tuple(self._turn_ends),
            stream_lag=self._stream_lag,
        )

    def _add(self, event: tuple[int, int, int, int, int, int], grown: int) -> None:
        self.live_bytes += grown - self._late.pop(len(self._events), 0)
        self._events.append(event)
        if len(self._events) > MAX_EVENTS:
            raise BadScale(f"there would be more than {MAX_EVENTS} events; make it shorter")


def write(history: History, path: Path) -> None:
    """As a file that ``frugal-alloc replay`` understands; bench/generators/README.md describes it."""
    path.write_text(as_text(history))


def as_text(history: History) -> str:
    """What write() writes."""
    head = {
        "frugal_alloc_history": 1,
        "warm_up_end": history.warm_up_end,
        "turn_ends": list(history.turn_ends),
        "stream_lag": history.stream_lag,
    }
    return rows_as_text(head, rows_of(history))


def rows_of(history: History) -> list[list[int]]:
    """Its events as the file has them, in which allocations are numbered in their order."""
    rows: list[list[int]] = []
    numbers: dict[int, int] = {}
    for operation, allocation, size, stream, late_stream, ready in EVENT.iter_unpack(history.events):
        if operation == ALLOCATE:
            numbers[allocation] = len(numbers)
            rows.append([ALLOCATE, numbers[allocation], size, stream])
        elif ready:
            rows.append([FREE, numbers[allocation], late_stream, ready])
        else:
            rows.append([FREE, numbers[allocation]])
    return rows


def rows_as_text(head: dict[str, Any], rows: list[list[int]]) -> str:
    """A file with these fields, the events last, each on a line of its own."""
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    return json.dumps(head)[:-1] + ', "events": [\n' + lines + "\n]}\n"

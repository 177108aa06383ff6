"""Recorded allocation histories, as the events that the replay plays.

Two recordings are understood: what ``torch.cuda.memory._dump_snapshot`` writes, and a Kineto (Chrome) trace of a
profile with ``profile_memory=True``. Both may start in the middle of a run: what was allocated before is worked out
from what is freed in the recording or still there at its end, and placed first. The third kind of file is a list of
events that some program has made up: bench/generators/README.md describes it.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import reprlib
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import _recorded_files

# bindings/replay/history.h has the same layout (its Event): change both or neither.
EVENT = struct.Struct("<IIQIIQ")
ALLOCATE, FREE = 0, 1

# A Kineto trace tells how much was allocated before it began, but not in which pieces.
_UNEXPLAINED_CHUNK_BYTES = 16 << 20
# More than any GPU has, and few enough for the sums to stay within 64 bits.
_MAX_SIZE = 1 << 50
_MAX_STREAMS = 1024
_MAX_EVENTS = 1 << 24
_MOST_SHOWN = 60

_PACKED_SUFFIXES = (".pickle.xz", ".json.gz", ".pickle", ".json.xz", ".json")


class HistoryError(Exception):
    """No history can be read from the file; the message names it and says what to do."""


@dataclasses.dataclass(frozen=True)
class History:
    """The events of one recording, packed; sizes in bytes."""

    name: str
    events: bytes
    event_count: int
    # The first so many events place what was allocated before the recording began.
    initial_count: int
    allocation_count: int
    stream_count: int
    # Most bytes, as requested, that were allocated or freed but still in use by a stream at a time.
    peak_live_bytes: int
    # The event from which on the program's work is steady; None: not known.
    warm_up_end: int | None = None
    # Of a fixed loop, whose iterations all make the same calls: the event at which each of them ends.
    turn_ends: tuple[int, ...] = ()
    # How many events the streams are behind the host when they are replayed with work on them; 0: not known.
    stream_lag: int = 0


def folders() -> list[Path]:
    """Where histories are found by name: in the installed package, and in a checkout."""
    package = Path(__file__).resolve().parent.parent
    return [package / "histories", package.parent.parent / "bench" / "histories"]


def known_names() -> list[str]:
    names = {
        entry.name.split(".")[0]
        for folder in folders()
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.name.endswith(_PACKED_SUFFIXES)
    }
    return sorted(names)


def find(name: str) -> Path:
    """The file of that path, or of that name among the project's own histories."""
    if _may_exist(name):
        return Path(name)
    if os.sep not in name:
        for folder in folders():
            for suffix in ("", *_PACKED_SUFFIXES):
                if (folder / (name + suffix)).is_file():
                    return folder / (name + suffix)
    known = ", ".join(known_names()) or "none are here: they lie in bench/histories of a checkout"
    raise HistoryError(f"{name} does not exist, nor is it the name of a history that comes with the project ({known})")


def _may_exist(name: str) -> bool:
    """True where the folder may not be looked into, too: reading the file will say so."""
    try:
        os.stat(name)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def read(path: str | os.PathLike[str]) -> History:
    """Reads a recording of any kind.

    Raises:
        HistoryError: the file is missing, damaged, of another kind, or records no allocation.
    """
    path = Path(path)
    try:
        data = _recorded_files.read_bytes(path)
        recording = _recorded_files.parse_values(data, path)
        # What is short in a file can be there many times: events take memory for each.
        with _recorded_files.bounded_memory(path, len(data)):
            history = _read_recording(recording, path.name)
    except _recorded_files.UnreadableFile as error:
        raise HistoryError(str(error)) from None
    except (_Malformed, RecursionError) as error:
        raise HistoryError(f"{path}: {str(error) or 'it is nested too deeply'}") from None
    if history is None:
        raise HistoryError(
            f"{path} is no allocation history: expected torch.cuda.memory._dump_snapshot's pickle, a Kineto trace or a "
            "list of events"
        )
    return history


def _read_recording(recording: Any, name: str) -> History | None:
    """None: it is of no kind that we know."""
    if isinstance(recording, dict) and "device_traces" in recording:
        return _read_snapshot(recording).history(name)
    if isinstance(recording, dict) and "traceEvents" in recording:
        return _read_kineto(recording).history(name)
    if isinstance(recording, dict) and "frugal_alloc_history" in recording:
        return _read_event_list(recording, name)
    return None


class _Shown(reprlib.Repr):
    """Values of a file in a message: some sixty characters, whatever they are."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, 40, 40
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 4

    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to write very long ones.
        return f"a number of {value.bit_length()} bits" if value.bit_length() > 128 else repr(value)


def _shown(value: Any) -> str:
    return _SHOWN.repr(value)[:_MOST_SHOWN]


_SHOWN = _Shown()


class _Malformed(Exception):
    """What the recording says cannot be; the message says what."""


@dataclasses.dataclass(slots=True)
class _Event:
    operation: int
    allocation: int
    size: int = 0
    stream: int = 0
    late_stream: int = 0
    # Of a late free: number of the event before which the late stream is done. None: not late.
    ready: int | None = None


# A late stream that is not done before the recording ends.
_AFTER_THE_END = 1 << 62


class _Builder:
    """Collects allocations and frees by address, in the order of time.

    A free of an unknown address is of memory that was allocated before the recording; so is what is there at the end
    and was not allocated in it.
    """

    def __init__(self) -> None:
        self._events: list[_Event] = []
        # By address: the allocation there.
        self._live: dict[int, int] = {}
        self._sizes: list[int] = []
        self._streams: dict[int, int] = {0: 0}
        # (address, event): allocated before the recording, to be placed in the order of addresses.
        self._initial: list[tuple[int, _Event]] = []

    @property
    def initial_bytes(self) -> int:
        return sum(event.size for _, event in self._initial)

    def allocate(self, address: int, size: int, stream: int) -> None:
        if address in self._live:
            # Its free is missing from the recording: it must have been before this.
            self.free(address, size, stream)
        event = self._new_allocation(size, stream)
        self._live[address] = event.allocation
        self._add(event)

    def free(self, address: int, size: int, stream: int) -> _Event:
        allocation = self._live.pop(address, None)
        if allocation is None:
            allocation = self._add_initial(address, size, stream)
        return self._add(_Event(FREE, allocation))

    def mark_late(self, free: _Event, done: bool) -> None:
        """The memory of `free` was in use by some stream up to now; if not `done`, it still is at the end."""
        free.ready = len(self._events) if done else _AFTER_THE_END

    def add_survivors(self, survivors: Iterable[tuple[int, int, int]]) -> None:
        """(address, size, stream) of all that is allocated at the end."""
        for address, size, stream in survivors:
            if address not in self._live:
                self._add_initial(address, size, stream)

    def history(self, name: str) -> History:
        if not self._events:
            raise _Malformed(
                "no allocation is recorded in it; call torch.cuda.memory._record_memory_history() before the work, "
                "or profile with profile_memory=True"
            )
        self._assign_late_streams()
        initial = [event for _, event in sorted(self._initial, key=lambda entry: entry[0])]
        events = initial + self._events
        total = len(events)
        for event in self._events:
            if event.ready is not None:
                event.ready = min(event.ready + len(initial), total)
        stream_count = 1 + max(max(event.stream, event.late_stream) for event in events)
        return History(
            name=name,
            events=b"".join(
                EVENT.pack(e.operation, e.allocation, e.size, e.stream, e.late_stream, e.ready or 0) for e in events
            ),
            event_count=total,
            initial_count=len(initial),
            allocation_count=len(self._sizes),
            stream_count=stream_count,
            peak_live_bytes=self._peak_live_bytes(events),
        )

    def _new_allocation(self, size: int, stream: int) -> _Event:
        # Of an allocation without bytes, the allocator would not hear.
        size = max(size, 1)
        self._sizes.append(size)
        number = self._streams.setdefault(stream, len(self._streams))
        if number >= _MAX_STREAMS:
            raise _Malformed(f"it uses more than {_MAX_STREAMS} streams; that many cannot be replayed")
        return _Event(ALLOCATE, len(self._sizes) - 1, size, number)

    def _add_initial(self, address: int, size: int, stream: int) -> int:
        event = self._new_allocation(size, stream)
        self._initial.append((address, event))
        return event.allocation

    def _add(self, event: _Event) -> _Event:
        if len(self._events) >= _MAX_EVENTS:
            raise _Malformed(f"it has more than {_MAX_EVENTS} events; record fewer (max_entries)")
        self._events.append(event)
        return event

    def _assign_late_streams(self) -> None:
        """Gives each late free a stream that is busy for as long.

        The recording does not name the stream that was late. What one stream does ends in order, so a free goes to the
        busiest stream that is done no later than it must be, or to a new one.
        """
        done_at: dict[int, int] = {}
        for event in self._events:
            if event.ready is None:
                continue
            fitting = [stream for stream, done in done_at.items() if done <= event.ready]
            event.late_stream = max(fitting, key=done_at.__getitem__, default=len(self._streams) + len(done_at))
            done_at[event.late_stream] = event.ready
            if len(done_at) > _MAX_STREAMS:
                raise _Malformed(f"more than {_MAX_STREAMS} streams are late in it; that many cannot be replayed")

    def _peak_live_bytes(self, events: list[_Event]) -> int:
        live = peak = 0
        late: dict[int, int] = {}
        for index, event in enumerate(events):
            live -= late.pop(index, 0)
            if event.operation == ALLOCATE:
                live += event.size
            elif event.ready is None:
                live -= self._sizes[event.allocation]
            else:
                late[event.ready] = late.get(event.ready, 0) + self._sizes[event.allocation]
            peak = max(peak, live)
        return peak


def _number(record: Any, key: str, most: int = (1 << 64) - 1) -> int:
    value = record.get(key) if isinstance(record, dict) else None
    if type(value) is not int or not 0 <= value <= most:
        raise _Malformed(f"an entry's {key!r} is {_shown(value)}, not a number from 0 to {most}; the file is damaged")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Malformed(f"its {what} is {type(value).__name__}, not a list; the file is damaged")
    return value


def _read_snapshot(snapshot: dict[str, Any]) -> _Builder:
    """Of several devices, the one with most entries."""
    traces = [_list(trace, "trace of a device") for trace in _list(snapshot["device_traces"], "device_traces")]
    if not traces:
        raise _Malformed("it has no device; record it on a machine with a GPU")
    device = max(range(len(traces)), key=lambda number: len(traces[number]))
    builder = _Builder()
    pending = _add_trace(builder, traces[device])
    builder.add_survivors(_survivors(snapshot, device, pending))
    return builder


def _add_trace(builder: _Builder, trace: list[Any]) -> set[int]:
    """Adds a device's entries and returns the addresses that were freed but not yet out of use at the end.

    A free is requested, and completes at once unless another stream uses the memory (``record_stream``). Of a free that
    was requested before the recording, or by a tool that keeps completions only, there is the completion alone.
    """
    pending: dict[int, tuple[int, _Event]] = {}
    for index, entry in enumerate(trace):
        action = entry.get("action") if isinstance(entry, dict) else None
        if action == "alloc":
            builder.allocate(_number(entry, "addr"), _number(entry, "size", _MAX_SIZE), _number(entry, "stream"))
        elif action == "free_requested":
            address = _number(entry, "addr")
            pending[address] = index, builder.free(address, _number(entry, "size", _MAX_SIZE), _number(entry, "stream"))
        elif action == "free_completed":
            address = _number(entry, "addr")
            if address not in pending:
                builder.free(address, _number(entry, "size", _MAX_SIZE), _number(entry, "stream"))
                continue
            requested_at, free = pending.pop(address)
            if requested_at != index - 1:
                builder.mark_late(free, done=True)
        elif not isinstance(action, str):
            raise _Malformed(f"entry {index} of its trace has no action; the file is damaged")
    for _, free in pending.values():
        builder.mark_late(free, done=False)
    return set(pending)


def _survivors(snapshot: dict[str, Any], device: int, pending: set[int]) -> Iterable[tuple[int, int, int]]:
    for segment in _list(snapshot.get("segments"), "segments"):
        if _number(segment, "device") != device:
            continue
        # Snapshots of before torch 2.1 do not say where a block is; blocks of a segment follow one another.
        address = _number(segment, "address")
        stream = _number(segment, "stream")
        for block in _list(segment.get("blocks"), "list of blocks"):
            size = _number(block, "size", _MAX_SIZE)
            address = _number(block, "address") if "address" in block else address
            state = block.get("state")
            if isinstance(state, str) and state.startswith("active") and address not in pending:
                requested = _number(block, "requested_size", _MAX_SIZE) if "requested_size" in block else size
                yield address, requested, stream
            address += size


def _read_kineto(trace: dict[str, Any]) -> _Builder:
    """Its ``[memory]`` instants: sizes as the allocator rounded them, no streams. Of several devices, the busiest."""
    entries = sorted(_memory_instants(trace), key=lambda entry: (entry["ts"], entry["args"]["Ev Idx"]))
    devices = collections.Counter(entry["args"].get("Device Id") for entry in entries)
    device = devices.most_common(1)[0][0] if devices else None
    instants = [entry["args"] for entry in entries if entry["args"].get("Device Id") == device]
    builder = _Builder()
    for arguments in instants:
        address, size = _number(arguments, "Addr"), arguments["Bytes"]
        if size > 0:
            builder.allocate(address, size, stream=0)
        elif size < 0:
            builder.free(address, -size, stream=0)
    if instants:
        before = _number(instants[0], "Total Allocated", _MAX_SIZE) - instants[0]["Bytes"]
        builder.add_survivors(_chunks(before - builder.initial_bytes))
    return builder


def _memory_instants(trace: dict[str, Any]) -> Iterable[dict[str, Any]]:
    cuda = 1
    for entry in _list(trace["traceEvents"], "traceEvents"):
        if not isinstance(entry, dict) or entry.get("name") != "[memory]":
            continue
        arguments = entry.get("args")
        if not isinstance(arguments, dict) or arguments.get("Device Type") != cuda:
            continue
        if type(entry.get("ts")) not in (int, float) or type(arguments.get("Ev Idx")) is not int:
            raise _Malformed("a [memory] event has no time; the file is damaged")
        if type(arguments.get("Device Id", 0)) is not int:
            raise _Malformed("a [memory] event names no device; the file is damaged")
        if type(arguments.get("Bytes")) is not int or abs(arguments["Bytes"]) > _MAX_SIZE:
            raise _Malformed(f"a [memory] event's 'Bytes' is {_shown(arguments.get('Bytes'))}; the file is damaged")
        yield entry


def _chunks(size: int) -> Iterable[tuple[int, int, int]]:
    """`size` bytes that no event explains, at addresses that none can have."""
    address = -1
    while size > 0:
        chunk = min(size, _UNEXPLAINED_CHUNK_BYTES)
        yield address, chunk, 0
        size -= chunk
        address -= 1


def _read_event_list(recording: dict[str, Any], name: str) -> History:
    version = recording["frugal_alloc_history"]
    if type(version) is not int or version != 1:
        raise _Malformed(f"it is of version {_shown(version)}, and this frugal_alloc reads version 1")
    rows = _list(recording.get("events"), "events")
    if not rows:
        raise _Malformed("it has no event; write it again")
    if len(rows) > _MAX_EVENTS:
        raise _Malformed(f"it has more than {_MAX_EVENTS} events; generate fewer")
    events = _EventList(len(rows))
    for row in rows:
        events.add(row)
    turn_ends = _list(recording.get("turn_ends", []), "turn_ends")
    if turn_ends != sorted({_number({"turn_ends": end}, "turn_ends", len(rows)) for end in turn_ends}):
        raise _Malformed("its turn_ends do not ascend")
    return History(
        name=name,
        events=bytes(events.packed),
        event_count=len(rows),
        initial_count=0,
        allocation_count=len(events.sizes),
        stream_count=events.stream_count,
        peak_live_bytes=events.peak_live_bytes,
        warm_up_end=None if recording.get("warm_up_end") is None else _number(recording, "warm_up_end", len(rows)),
        turn_ends=tuple(turn_ends),
        stream_lag=_number(recording, "stream_lag", len(rows)) if "stream_lag" in recording else 0,
    )


class _EventList:
    """Checks and packs events one by one."""

    def __init__(self, event_count: int) -> None:
        self._event_count = event_count
        self._live: set[int] = set()
        self._live_bytes = 0
        # By event: bytes that a late stream is done with then; by stream: the last event of that kind.
        self._late: dict[int, int] = {}
        self._done_at: dict[int, int] = {}
        self.packed = bytearray()
        self.sizes: list[int] = []
        self.stream_count = 1
        self.peak_live_bytes = 0

    def add(self, row: Any) -> None:
        number = len(self.packed) // EVENT.size
        if not isinstance(row, list) or any(type(value) is not int for value in row):
            raise _Malformed(f"event {number} is {_shown(row)}, not a list of numbers")
        self._live_bytes -= self._late.pop(number, 0)
        if len(row) == 4 and row[0] == ALLOCATE:
            self._allocate(number, *row[1:])
        elif len(row) in (2, 4) and row[0] == FREE:
            self._free(number, *row[1:])
        else:
            raise _Malformed(f"event {number} is {_shown(row)}, neither an allocation nor a free")
        self.peak_live_bytes = max(self.peak_live_bytes, self._live_bytes)

    def _allocate(self, number: int, allocation: int, size: int, stream: int) -> None:
        if allocation != len(self.sizes):
            raise _Malformed(f"event {number} makes allocation {allocation}, and the next is {len(self.sizes)}")
        if not 0 < size <= _MAX_SIZE:
            raise _Malformed(f"event {number} has {size} bytes, not 1 to {_MAX_SIZE}")
        self._use(number, stream)
        self.sizes.append(size)
        self._live.add(allocation)
        self._live_bytes += size
        self.packed += EVENT.pack(ALLOCATE, allocation, size, stream, 0, 0)

    def _free(self, number: int, allocation: int, late_stream: int = 0, ready: int | None = None) -> None:
        if allocation not in self._live:
            raise _Malformed(f"event {number} frees allocation {allocation}, which is not allocated then")
        self._live.remove(allocation)
        size = self.sizes[allocation]
        if ready is None:
            self._live_bytes -= size
        else:
            self._use(number, late_stream)
            # What a stream does ends in order, so its work is there until the latest that was said before.
            if not max(number, self._done_at.get(late_stream, 0) - 1) < ready <= self._event_count:
                raise _Malformed(
                    f"event {number} is ready at {ready}: that must be after it, at most {self._event_count}, and no "
                    "earlier than what was freed before on that stream"
                )
            self._done_at[late_stream] = ready
            self._late[ready] = self._late.get(ready, 0) + size
        self.packed += EVENT.pack(FREE, allocation, 0, 0, late_stream, ready or 0)

    def _use(self, number: int, stream: int) -> None:
        if not 0 <= stream < _MAX_STREAMS:
            raise _Malformed(f"event {number} is on stream {stream}, not one of 0 to {_MAX_STREAMS - 1}")
        self.stream_count = max(self.stream_count, stream + 1)

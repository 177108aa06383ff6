"""Plays recorded and generated histories through allocators: with plenty of memory, and with little."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

from frugal_alloc._replay import history_files, live_memory, replays
from frugal_alloc._replay.history import ALLOCATE, EVENT, MAX_SIZE, History
from frugal_alloc._replay.replays import Measurement

from . import generators
from .replay_results import Constrained, Input

GIB = 1 << 30
HANDLE_BYTES = 2 << 20
# So much more than a part of the live memory is always granted: below some GiB, a part of it is less than a handle.
GRANTED_HANDLES = 4
# How far behind the host the streams are in the constrained plays of a history that does not say: some launches.
DEFAULT_STREAM_LAG = 32

# How much of the GPU that it is scaled to a history fills when most is live.
SCALED_PART = 0.8
# Allocators round to this anyway.
_GRAIN_BYTES = 512
_SAMPLES = 400
_PASSES = 2
# Of an event's fields.
_SIZE = 2
_CAPACITY_TOLERANCE = 0.0005
_HISTORIES = Path(__file__).resolve().parent / "histories"


class UnknownInput(ValueError):
    """There is no history of that name; the message lists those that there are."""


@dataclasses.dataclass(frozen=True)
class Play:
    """A history, ready to be played."""

    input: Input
    history: History


@dataclasses.dataclass(frozen=True)
class Plan:
    allocators: list[str]
    # Capacities over the most live memory.
    ratios: list[float]
    # Whether to look for the smallest capacity, which takes most of the time.
    find_minimum: bool


@dataclasses.dataclass(frozen=True)
class Findings:
    """As in replay_results.Results."""

    measurements: list[Measurement]
    behind: list[Measurement]
    constrained: list[Constrained]


def names() -> list[str]:
    return [path.name.split(".")[0] for path in _recordings()] + list(generators.GENERATORS)


def load(chosen: list[str] | None = None) -> list[Play]:
    """The histories of those names, or all.

    Raises:
        UnknownInput
    """
    known = names()
    for name in chosen or ():
        if name not in known:
            raise UnknownInput(f"no history is named {name!r}; there are {', '.join(known)}")
    recordings = {path.name.split(".")[0]: path for path in _recordings()}
    return [_load(name, recordings.get(name)) for name in known if not chosen or name in chosen]


def scaled_play(play: Play, memory: int) -> Play:
    """scaled() of it."""
    return describe(scaled(play.history, memory), play.input.kind, play.input.summary)


def from_file(path: Path, name: str) -> Play:
    """A recording under a name. Raises HistoryError."""
    return describe(dataclasses.replace(history_files.read(path), name=name), "recorded")


def scaled(history: History, memory: int) -> History:
    """The same program with larger or smaller tensors, all by one factor: it fills SCALED_PART of that much memory."""
    factor = SCALED_PART * memory / history.peak_live_bytes
    events = bytearray(history.events)
    for place, event in enumerate(EVENT.iter_unpack(history.events)):
        if event[0] == ALLOCATE:
            size = max(1, round(event[_SIZE] * factor / _GRAIN_BYTES)) * _GRAIN_BYTES
            changed = (*event[:_SIZE], min(size, MAX_SIZE), *event[_SIZE + 1 :])
            EVENT.pack_into(events, place * EVENT.size, *changed)
    made = dataclasses.replace(history, name=f"{history.name}@{memory / GIB:g}GiB", events=bytes(events))
    return dataclasses.replace(made, peak_live_bytes=live_memory.sample(made, 0).peak_bytes)


def capacity(history: History, ratio: float) -> int:
    """That part of the most live memory, or four handles more than it, in whole handles."""
    least = history.peak_live_bytes + GRANTED_HANDLES * HANDLE_BYTES
    return -(-max(least, round(history.peak_live_bytes * ratio)) // HANDLE_BYTES) * HANDLE_BYTES


def measure(replayer: replays.Replayer, plays: list[Play], plan: Plan, advance: Callable[[str], None]) -> Findings:
    """Calls `advance` once for each of count_steps(). Raises as Replayer.measure() does."""
    jobs: list[Callable[[], Measurement | Constrained]] = []
    for play in plays:
        for allocator in plan.allocators:
            jobs.append(functools.partial(_measure_ample, replayer, play, allocator, plan.find_minimum))
            if play.input.streams > 1:
                jobs.append(functools.partial(_measure_behind, replayer, play, allocator))
            for ratio in plan.ratios:
                jobs.append(functools.partial(measure_constrained, replayer, play, allocator, ratio))

    def counted(job: Callable[[], Measurement | Constrained]) -> Measurement | Constrained:
        found = job()
        advance(f"{found.history} {found.allocator}")
        return found

    found = replays.run_all(replayer, [functools.partial(counted, job) for job in jobs])
    measured = [one for one in found if isinstance(one, Measurement)]
    return Findings(
        measurements=[one for one in measured if one.stream_lag == 0],
        behind=[one for one in measured if one.stream_lag > 0],
        constrained=[one for one in found if isinstance(one, Constrained)],
    )


def count_steps(plays: list[Play], plan: Plan) -> int:
    several = sum(play.input.streams > 1 for play in plays)
    return len(plan.allocators) * (len(plays) * (1 + len(plan.ratios)) + several)


def measure_constrained(replayer: replays.Replayer, play: Play, allocator: str, ratio: float) -> Constrained:
    """Once, with work on the streams."""
    found = replayer.measure(
        play.history,
        allocator,
        capacity(play.history, ratio),
        find_minimum=False,
        passes=1,
        stream_lag=play.input.stream_lag,
    )
    return Constrained(
        history=play.input.name,
        allocator=allocator,
        ratio=ratio,
        capacity_bytes=found.capacity_bytes,
        completed=found.completed,
        failed_at=found.failed_at,
        error=found.error,
        host_syncs=found.host_syncs,
        stream_waits=found.driver_calls["stream_wait"],
        driver_calls=found.driver_calls,
        driver_ns=found.driver_ns,
    )


def _measure_ample(replayer: replays.Replayer, play: Play, allocator: str, find_minimum: bool) -> Measurement:
    return replayer.measure(
        play.history,
        allocator,
        replays.DEFAULT_CAPACITY,
        find_minimum,
        passes=_PASSES,
        samples=_SAMPLES,
        picture=True,
        tolerance=_CAPACITY_TOLERANCE,
    )


def _measure_behind(replayer: replays.Replayer, play: Play, allocator: str) -> Measurement:
    return replayer.measure(
        play.history,
        allocator,
        replays.DEFAULT_CAPACITY,
        find_minimum=False,
        passes=_PASSES,
        stream_lag=play.input.stream_lag,
        samples=_SAMPLES,
    )


def _recordings() -> list[Path]:
    return sorted(path for path in _HISTORIES.iterdir() if path.suffix in (".xz", ".gz"))


def _load(name: str, recording: Path | None) -> Play:
    if recording is not None:
        return from_file(recording, name)
    return describe(generators.generate(name), "generated", generators.GENERATORS[name].summary)


def describe(history: History, kind: str, summary: str = "") -> Play:
    """`kind` is "recorded" or "generated"."""
    described = Input(
        name=history.name,
        kind=kind,
        summary=summary,
        events=history.event_count,
        allocations=history.allocation_count,
        streams=history.stream_count,
        peak_live_bytes=history.peak_live_bytes,
        warm_up_end=history.warm_up_end,
        turn_ends=list(history.turn_ends),
        seed=generators.DEFAULT_SEED if kind == "generated" else None,
        stream_lag=history.stream_lag or DEFAULT_STREAM_LAG,
    )
    return Play(described, history)

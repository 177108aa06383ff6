"""What //bench:replay_bench has found, and the file that ``--json`` writes: one JSON object, a Results."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from frugal_alloc._replay.replays import Measurement

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Environment:
    """Where and of what the figures are."""

    # The checkout's, with "+" where files differ from it; "unknown" outside a checkout.
    commit: str
    # In UTC, as 2026-01-31T23:59:59Z.
    time: str
    processor: str
    cores: int
    # Bytes.
    memory: int
    system: str
    python: str
    torch: str
    # As given after ``--``.
    arguments: list[str]
    # What a reader has to know, one sentence each.
    caveats: list[str]


@dataclasses.dataclass(frozen=True)
class Input:
    """A history that was played."""

    name: str
    # "recorded" or "generated".
    kind: str
    # One line; empty where nothing but the name is known.
    summary: str
    events: int
    allocations: int
    streams: int
    peak_live_bytes: int
    # See frugal_alloc._replay.history.History.
    warm_up_end: int | None
    turn_ends: list[int]
    # Of a generated one.
    seed: int | None
    # How many events the streams are behind the host in the constrained plays.
    stream_lag: int


@dataclasses.dataclass(frozen=True)
class Constrained:
    """One play in little memory, with work on the streams."""

    history: str
    allocator: str
    # Capacity over the most live memory, as asked for: 1.005. The capacity is never less than four handles above it.
    ratio: float
    capacity_bytes: int
    completed: bool
    failed_at: int | None
    # The allocator's words where it did not complete.
    error: str | None
    # Up to where it ended.
    host_syncs: int
    stream_waits: int
    driver_calls: dict[str, int]
    driver_ns: int


@dataclasses.dataclass(frozen=True)
class Value:
    """One figure of one history with one allocator."""

    history: str
    allocator: str
    # None: not completed.
    value: float | None
    meets_bar: bool
    meets_stretch: bool


@dataclasses.dataclass(frozen=True)
class Bar:
    """A row of the table of bars."""

    # Stays the same from run to run.
    key: str
    # For people.
    what: str
    unit: str
    # Whether a value should be at least, rather than at most, the bar.
    at_least: bool
    # None: the row is for information.
    bar: float | None
    # None: none is set, or it is another allocator's value of the same history ("stretch_is").
    stretch: float | None
    stretch_is: str | None
    # Of every history that the row is about and every allocator.
    values: list[Value]


@dataclasses.dataclass(frozen=True)
class Results:
    format: int
    environment: Environment
    allocators: list[str]
    inputs: list[Input]
    # Each history through each allocator with plenty of memory, with series and runs (the address space): see
    # frugal_alloc._replay.replays.Measurement. Names of histories are those of `inputs`.
    measurements: list[Measurement]
    # The same with the streams behind the host; of inputs with several streams.
    behind: list[Measurement]
    constrained: list[Constrained]
    bars: list[Bar]


def write(results: Results, path: Path) -> None:
    path.write_text(json.dumps(dataclasses.asdict(results), separators=(",", ":")) + "\n")


def read(path: Path) -> dict[str, Any]:
    """The object that write() wrote, as plain values.

    Raises:
        ValueError: it is no such file, or one of another format; the message says which.
        OSError: it cannot be read.
    """
    try:
        results = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(results, dict) or "format" not in results:
        raise ValueError(f"{path} was not written by bazel run //bench:replay_bench -- --json")
    if results["format"] != FORMAT:
        raise ValueError(f"{path} has format {results['format']!r}, and this program reads {FORMAT}; measure again")
    return results

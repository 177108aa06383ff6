"""What ``//bench:replay_bench -- --json`` has written, read with care; the shape is that of bench/replay_results.py."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from .fields import BadInput, Fields, read_json

FORMAT = 1
STATES = ("live", "awaiting", "free", "hole")


@dataclasses.dataclass(frozen=True)
class Input:
    """A history that was played."""

    name: str
    # "recorded" or "generated".
    kind: str
    summary: str
    events: int
    allocations: int
    streams: int
    peak_live_bytes: int


@dataclasses.dataclass(frozen=True)
class Play:
    """One history through one allocator with plenty of memory."""

    history: str
    allocator: str
    completed: bool
    peak_live_bytes: int
    peak_reserved_bytes: int
    utilisation: float | None
    min_capacity_bytes: int | None
    driver_ns_to_peak: int | None
    ns_per_pair: float | None
    # Modelled driver time and allocations of the steady state.
    steady_driver_ns: int | None
    steady_allocations: int | None
    # (event, most live bytes, most reserved bytes), by event.
    series: list[tuple[int, int, int]]
    # (address, bytes, state), by address.
    runs: list[tuple[int, int, str]]


@dataclasses.dataclass(frozen=True)
class Value:
    history: str
    allocator: str
    # None: not completed.
    value: float | None
    meets_bar: bool
    meets_stretch: bool


@dataclasses.dataclass(frozen=True)
class Bar:
    what: str
    unit: str
    at_least: bool
    bar: float | None
    stretch: float | None
    stretch_is: str | None
    values: list[Value]


@dataclasses.dataclass(frozen=True)
class Constrained:
    """One play in little memory, with work on the streams."""

    history: str
    allocator: str
    ratio: float
    completed: bool
    host_syncs: int
    stream_waits: int


@dataclasses.dataclass(frozen=True)
class Replays:
    commit: str
    time: str
    # The rest of the environment, by title.
    environment: dict[str, str]
    caveats: list[str]
    allocators: list[str]
    inputs: list[Input]
    plays: list[Play]
    constrained: list[Constrained]
    bars: list[Bar]


def read(path: Path) -> Replays:
    """Raises BadInput where the file is not one of replay_bench's, or not in a format that is known here."""
    found = Fields(read_json(path), str(path))
    if "format" not in found or "measurements" not in found:
        raise BadInput(f"{path} was not written by bazel run -c opt //bench:replay_bench -- --json FILE")
    if found.whole("format") != FORMAT:
        raise BadInput(f"{path} has format {found.whole('format')}, and this program reads {FORMAT}; measure again")
    environment = found.fields("environment")
    return Replays(
        commit=environment.text("commit"),
        time=environment.text("time"),
        environment=_environment(environment),
        caveats=_texts(environment, "caveats"),
        allocators=_texts(found, "allocators"),
        inputs=[_input(item) for item in _objects(found, "inputs")],
        plays=[_play(item) for item in _objects(found, "measurements")],
        constrained=[_constrained(item) for item in _objects(found, "constrained")],
        bars=[_bar(item) for item in _objects(found, "bars")],
    )


def _objects(found: Fields, name: str) -> list[Fields]:
    return [Fields(item, f"{found.where}: {name}[{n}]") for n, item in enumerate(found.items(name))]


def _texts(found: Fields, name: str) -> list[str]:
    items = found.items(name)
    if not all(isinstance(item, str) for item in items):
        raise BadInput(f"{found.where}: {name!r} is not a list of texts")
    return items


def _environment(found: Fields) -> dict[str, str]:
    return {
        "Processor": f"{found.text('processor')}, {found.whole('cores')} cores",
        "Memory": f"{found.whole('memory') / 2**30:.0f} GiB",
        "System": found.text("system"),
        "Python": found.text("python"),
        "torch": found.text("torch"),
        "Arguments": " ".join(_texts(found, "arguments")) or "none",
    }


def _input(found: Fields) -> Input:
    kind = found.text("kind")
    if kind not in ("recorded", "generated"):
        raise BadInput(f"{found.where}: 'kind' is neither recorded nor generated")
    return Input(
        name=found.text("name"),
        kind=kind,
        summary=found.text("summary"),
        events=found.whole("events"),
        allocations=found.whole("allocations"),
        streams=found.whole("streams"),
        peak_live_bytes=found.whole("peak_live_bytes"),
    )


def _play(found: Fields) -> Play:
    steady = found.fields("steady") if "steady" in found else None
    return Play(
        history=found.text("history"),
        allocator=found.text("allocator"),
        completed=found.flag("completed"),
        peak_live_bytes=found.whole("peak_live_bytes"),
        peak_reserved_bytes=found.whole("peak_reserved_bytes"),
        utilisation=found.number("utilisation", None),
        min_capacity_bytes=found.whole("min_capacity_bytes", None),
        driver_ns_to_peak=found.whole("driver_ns_to_peak", None),
        ns_per_pair=found.number("ns_per_pair", None),
        steady_driver_ns=steady.whole("driver_ns") if steady else None,
        steady_allocations=steady.whole("allocations") if steady else None,
        series=[_sample(item, found.where) for item in found.items("series", [])],
        runs=[_run(item, found.where) for item in found.items("runs", [])],
    )


def _sample(item: Any, where: str) -> tuple[int, int, int]:
    if not (isinstance(item, list) and len(item) == 3 and all(map(_is_size, item))):
        raise BadInput(f"{where}: 'series' is not a list of (event, live bytes, reserved bytes)")
    return tuple(item)


def _run(item: Any, where: str) -> tuple[int, int, str]:
    if not (isinstance(item, list) and len(item) == 3 and all(map(_is_size, item[:2])) and item[2] in STATES):
        raise BadInput(f"{where}: 'runs' is not a list of (address, bytes, state)")
    return tuple(item)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _constrained(found: Fields) -> Constrained:
    return Constrained(
        history=found.text("history"),
        allocator=found.text("allocator"),
        ratio=found.number("ratio"),
        completed=found.flag("completed"),
        host_syncs=found.whole("host_syncs"),
        stream_waits=found.whole("stream_waits"),
    )


def _bar(found: Fields) -> Bar:
    return Bar(
        what=found.text("what"),
        unit=found.text("unit"),
        at_least=found.flag("at_least"),
        bar=found.number("bar", None),
        stretch=found.number("stretch", None),
        stretch_is=found.text("stretch_is", None),
        values=[
            Value(
                history=item.text("history"),
                allocator=item.text("allocator"),
                value=item.number("value", None),
                meets_bar=item.flag("meets_bar"),
                meets_stretch=item.flag("meets_stretch"),
            )
            for item in _objects(found, "values")
        ],
    )

"""What the allocator must reach, row by row, and what the measurements say about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from frugal_alloc._replay.replays import Measurement

from .replay_results import Bar, Constrained, Input, Value
from .replay_suite import GRANTED_HANDLES, HANDLE_BYTES, Findings

_GIB = 1 << 30
_GRANTED_BYTES = GRANTED_HANDLES * HANDLE_BYTES
# Calls that change what is mapped where, or take memory from the device or give it back.
_MEMORY_CALLS = ("create", "map", "set_access", "unmap", "release", "malloc", "free")
_TRAINING = ("gpt60", "bert60", "resnet60", "frcnn60", "vit_mixed", "prefetch", "diffusion")
_GENERATED_TRAINING = ("variable_batches", "multi_scale", "train_evaluate", "optimizer_offload")
_SERVER = ("kv_server",)


@dataclasses.dataclass(frozen=True)
class _Row:
    """A bar without its values."""

    key: str
    what: str
    unit: str
    bar: float | None
    stretch: float | None
    at_least: bool = False
    stretch_is: str | None = None


# A figure of one play; None where it did not complete, or has no such figure.
_Figure = tuple[str, str, float | None]


def bars(inputs: list[Input], findings: Findings) -> list[Bar]:
    """All rows for which there are measurements."""
    rows = [
        *_utilisation(inputs, findings.measurements),
        *_behind(findings.behind),
        *_capacity(findings.measurements),
        *_steady(inputs, findings.measurements),
        *_constrained(inputs, findings.constrained),
        *_first_time(findings.measurements),
    ]
    return [row for row in rows if row.values]


def _bar(row: _Row, figures: Iterable[_Figure], excused: Callable[[str, str], bool] = lambda *_: False) -> Bar:
    """`excused` says whether a figure, by history and allocator, reaches the bar by a rule of its own."""
    figures = list(figures)
    peers = {history: value for history, allocator, value in figures if allocator == row.stretch_is}

    def meets(value: float | None, bound: float | None) -> bool:
        if value is None or bound is None:
            return False
        return value >= bound if row.at_least else value <= bound

    values = []
    for history, allocator, value in figures:
        stretch = peers.get(history) if row.stretch_is else row.stretch
        excuse = value is not None and excused(history, allocator)
        values.append(
            Value(history, allocator, value, meets(value, row.bar) or excuse, meets(value, stretch) or excuse)
        )
    return Bar(**dataclasses.asdict(row), values=values)


def _utilisation(inputs: list[Input], measurements: list[Measurement]) -> list[Bar]:
    recorded = {one.name for one in inputs if one.kind == "recorded"}
    close = {
        (one.history, one.allocator)
        for one in measurements
        if one.peak_reserved_bytes <= one.peak_live_bytes + _GRANTED_BYTES
    }

    def bar(kind: str, least: float, names: set[str]) -> Bar:
        row = _Row(f"utilisation_{kind}", f"utilisation, {kind}", "", least, 0.999, at_least=True)
        figures = [
            (
                one.history,
                one.allocator,
                _ratio(one.peak_live_bytes, one.peak_reserved_bytes) if one.completed else None,
            )
            for one in measurements
            if one.history in names
        ]
        return _bar(row, figures, lambda *pair: pair in close)

    generated = {one.name for one in inputs} - recorded
    return [bar("recorded", 0.995, recorded), bar("generated", 0.99, generated)]


def _behind(behind: list[Measurement]) -> list[Bar]:
    row = _Row("utilisation_behind", "utilisation, streams behind the host", "", None, None, at_least=True)
    return [
        _bar(
            row,
            [
                (one.history, one.allocator, _ratio(one.peak_live_bytes, one.peak_reserved_bytes))
                for one in behind
                if one.completed
            ],
        )
    ]


def _capacity(measurements: list[Measurement]) -> list[Bar]:
    searched = [one for one in measurements if one.min_capacity_bytes is not None]
    close = {
        (one.history, one.allocator)
        for one in searched
        if (one.min_capacity_bytes or 0) <= one.peak_live_bytes + _GRANTED_BYTES
    }
    row = _Row("min_capacity", "smallest capacity, of peak live", "x", 1.005, 1.001)
    figures = [
        (one.history, one.allocator, _ratio(one.min_capacity_bytes or 0, one.peak_live_bytes)) for one in searched
    ]
    return [_bar(row, figures, lambda *pair: pair in close)]


def _steady(inputs: list[Input], measurements: list[Measurement]) -> list[Bar]:
    loops = {one.name for one in inputs if one.turn_ends}
    single = {one.name for one in inputs if one.streams == 1}

    def bar(row: _Row, names: Iterable[str], figure: Callable[[Measurement], float]) -> Bar:
        steady = [one for one in measurements if one.history in set(names)]
        return _bar(row, [(one.history, one.allocator, figure(one) if one.steady else None) for one in steady])

    return [
        bar(_Row("loop_calls", "driver calls in fixed loops, after 3 iterations", "/1000", 0, 0), loops, _memory_calls),
        bar(_Row("time_training", "driver time, training again, warm", "ms/1000", 1, 0.2), _TRAINING, _driver_ms),
        bar(
            _Row("time_generated", "driver time, generated training, warm", "ms/1000", 1, 0.2),
            _GENERATED_TRAINING,
            _driver_ms,
        ),
        bar(_Row("time_server", "driver time, KV server, warm", "ms/1000", 5, 1), _SERVER, _driver_ms),
        bar(
            _Row("time_others", "driver time, all others, warm", "ms/1000", None, None),
            {one.name for one in inputs} - {*_TRAINING, *_GENERATED_TRAINING, *_SERVER},
            _driver_ms,
        ),
        bar(_Row("event_calls", "event calls on one stream", "/1000", 0, 0), single, _event_calls),
    ]


def _constrained(inputs: list[Input], constrained: list[Constrained]) -> list[Bar]:
    rows = []
    for ratio in sorted({one.ratio for one in constrained}):
        plays = [one for one in constrained if one.ratio == ratio]
        # At 1.001 it is the stretch that must be reached; a row of its own says how far that is.
        bar = None if ratio < 1.005 else 0
        syncs = _Row(f"syncs_{ratio:g}", f"host waits at {ratio:g} x peak live", "", bar, 0)
        rows.append(_bar(syncs, [(one.history, one.allocator, _if_completed(one, one.host_syncs)) for one in plays]))
        if ratio >= 1.2:
            waits = _Row(f"waits_{ratio:g}", f"stream waits at {ratio:g} x peak live", "", 0, 0)
            several = {one.name for one in inputs if one.streams > 1}
            rows.append(
                _bar(
                    waits,
                    [
                        (one.history, one.allocator, _if_completed(one, one.stream_waits))
                        for one in plays
                        if one.history in several
                    ],
                )
            )
    return rows


def _first_time(measurements: list[Measurement]) -> list[Bar]:
    row = _Row("first_time", "driver time up to the peak", "ms/GiB", 20, None, stretch_is="native")
    figures = [
        (one.history, one.allocator, _ratio(one.driver_ns_to_peak / 1e6, one.peak_reserved_bytes / _GIB))
        for one in measurements
        if one.completed
    ]
    return [_bar(row, figures)]


def _memory_calls(one: Measurement) -> float:
    calls = one.steady.driver_calls
    return _per_thousand(sum(calls[kind] for kind in _MEMORY_CALLS), one.steady.allocations)


def _driver_ms(one: Measurement) -> float:
    return _per_thousand(one.steady.driver_ns / 1e6, one.steady.allocations)


def _event_calls(one: Measurement) -> float:
    calls = one.steady.driver_calls
    return _per_thousand(calls["event_record"] + calls["event_query"], one.steady.allocations)


def _if_completed(one: Constrained, value: int) -> int | None:
    return value if one.completed else None


def _per_thousand(count: float, allocations: int) -> float:
    return round(1_000 * count / allocations, 4)


def _ratio(value: float, whole: float) -> float:
    return round(value / whole, 5)

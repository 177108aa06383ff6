"""Small made-up figures, of the shape that the benchmarks write them in."""

from __future__ import annotations

from typing import Any

GIB, MIB = 1 << 30, 1 << 20


def play(history: str, allocator: str, reserved: int, **changes: Any) -> dict[str, Any]:
    made = {
        "history": history,
        "allocator": allocator,
        "completed": True,
        "peak_live_bytes": 4 * GIB,
        "peak_reserved_bytes": reserved,
        "utilisation": round(4 * GIB / reserved, 4),
        "min_capacity_bytes": reserved,
        "driver_ns_to_peak": 80_000_000,
        "ns_per_pair": 321.5,
        "steady": {"allocations": 2000, "driver_ns": 3_000_000},
        "series": [[0, GIB, 2 * GIB], [10, 4 * GIB, reserved]],
        "runs": [
            [1 << 40, 3 * GIB, "live"],
            [(1 << 40) + 3 * GIB, 512 * MIB, "free"],
            [1 << 42, GIB, "live"],
            [(1 << 42) + GIB, 2 * MIB, "awaiting"],
        ],
    }
    return {**made, **changes}


def value(history: str, allocator: str, figure: float | None, bar: bool, stretch: bool) -> dict[str, Any]:
    return {
        "history": history,
        "allocator": allocator,
        "value": figure,
        "meets_bar": bar,
        "meets_stretch": stretch,
    }


ENVIRONMENT = {
    "commit": "c0ffee1234",
    "time": "2026-01-31T23:59:59Z",
    "processor": "Abacus 9",
    "cores": 2,
    "memory": 24 * GIB,
    "system": "Linux 6",
    "python": "3.11",
    "torch": "2.11.0",
    "arguments": [],
    "caveats": ["Measured on the simulated GPU."],
}
INPUT = {
    "kind": "recorded",
    "summary": "sixty steps",
    "events": 20,
    "allocations": 10,
    "streams": 1,
    "peak_live_bytes": 4 * GIB,
    "warm_up_end": None,
    "turn_ends": [],
    "seed": None,
    "stream_lag": 0,
}
CONSTRAINED = {"allocator": "frugal", "ratio": 1.005, "completed": True, "host_syncs": 0, "stream_waits": 7}


def replays(history: str = "gpt60") -> dict[str, Any]:
    """What bench.replay_bench writes, of one history with two allocators."""
    values = [value(history, "frugal", 0.998, True, False), value(history, "native", 0.8, False, False)]
    bar = {
        "key": "utilisation_recorded",
        "what": "utilisation, recorded",
        "unit": "",
        "at_least": True,
        "bar": 0.995,
        "stretch": 0.999,
        "stretch_is": None,
        "values": values,
    }
    return {
        "format": 1,
        "environment": dict(ENVIRONMENT),
        "allocators": ["frugal", "native"],
        "inputs": [{"name": history, **INPUT}],
        "measurements": [play(history, "frugal", 4 * GIB + 8 * MIB), play(history, "native", 5 * GIB)],
        "behind": [],
        "constrained": [{"history": history, **CONSTRAINED}],
        "bars": [bar],
    }


def micro() -> dict[str, Any]:
    """What Google Benchmark writes: two subjects, one of them in three repetitions."""

    def run(name: str, time: float, **more: Any) -> dict[str, Any]:
        times = {"real_time": 2 * time, "cpu_time": time, "time_unit": "ns"}
        return {"name": name, "run_name": name, "run_type": "iteration", **times, **more}

    return {
        "context": {"date": "2026-01-31T23:59:59+00:00", "host_name": "secret", "num_cpus": 2, "mhz_per_cpu": 2000},
        "benchmarks": [
            run("Native/512", 400.0),
            run("Frugal/512", 90.0),
            run("Frugal/512", 120.0),
            run("Frugal/512", 100.0),
            run("Frugal/512_median", 100.0, run_type="aggregate"),
            run("Frugal/4096", 0.25, time_unit="us"),
        ],
    }

"""Latencies of calls and what is said of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

now = time.perf_counter_ns


@dataclasses.dataclass(frozen=True)
class Latencies:
    """Of one call made many times, in microseconds."""

    count: int
    p50: float
    p99: float
    worst: float

    @staticmethod
    def of(nanoseconds: Sequence[int]) -> Latencies:
        """At least one."""
        ordered = sorted(nanoseconds)
        at = [ordered[min(len(ordered) - 1, int(part * len(ordered)))] / 1000 for part in (0.5, 0.99)]
        return Latencies(len(ordered), at[0], at[1], ordered[-1] / 1000)

    def as_json(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in dataclasses.asdict(self).items()}


def timed(call: Callable[..., int], *arguments: object) -> tuple[int, int]:
    """The status of the call, and how long it took in nanoseconds."""
    began = now()
    status = call(*arguments)
    return status, now() - began


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The line through the points by least squares: where it begins, and how it rises."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    return mean_y - rise * mean_x, rise

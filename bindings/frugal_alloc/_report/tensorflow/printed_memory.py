"""Memory that a training prints with each step: what tf.config.experimental.get_memory_info() returns."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..._common.trend import TREND_CONFIDENCE, median_slope, rank_confidence

# Two steps of warm-up are left out, and so many others show growth for sure.
_WARM_UP_STEPS, _SUSPECT_STEPS, _LEAK_STEPS = 2, 4, 6
_LEAST_PART = 0.02
PATTERN = "tensor_of_each_step"
ADVICE = (
    "find what keeps a tensor of every step: a list or dict that outputs are added to (append float(loss), not "
    "the tensor), a tf.function that is traced again with each call, summaries or metrics that are never reset"
)


@dataclasses.dataclass(frozen=True)
class Growth:
    """By so much the memory between steps grew, how sure that is, and in how many steps it was seen."""

    bytes_per_step: float
    grown_bytes: int
    confidence: float
    steps: int

    @property
    def kind(self) -> str:
        return "leak" if self.steps >= _LEAK_STEPS else "suspect"


def growth(memory: dict[int, tuple[int, int]]) -> Growth | None:
    """`memory`: of a step the bytes in use, and the most that were. None where they do not grow, or hardly."""
    steps = list(memory)[_WARM_UP_STEPS:]
    if len(steps) < _SUSPECT_STEPS:
        return None
    held = [memory[step][0] for step in steps]
    confidence = rank_confidence(held)
    rate = median_slope(held, steps)
    grown = held[-1] - held[0]
    if confidence < TREND_CONFIDENCE or rate <= 0 or grown < _LEAST_PART * held[-1]:
        return None
    return Growth(rate, grown, confidence, len(steps))


def add(report: dict[str, Any], memory: dict[int, tuple[int, int]], found: Growth | None) -> None:
    """Puts the course of memory into the report, and the verdict if there is growth and no dump that says more."""
    last, (held, peak) = next(reversed(memory.items()))
    gpu = report["gpus"][-1]["gpu"] if report["gpus"] else 0
    if not report["gpus"]:
        report["gpus"] = [
            {"gpu": gpu, "name": "TensorFlow", "total_bytes": 0, "allocated_bytes": held, "peak_allocated_bytes": peak}
        ]
    points = [[gpu, step, 0, 0, current, most, most] for step, (current, most) in memory.items()]
    after = [point for point in report["timeline"]["points"] if point[1] > last]
    report["timeline"] = {"phases": [""], "points": points + after, "epoch_ends": []}
    if found:
        report["verdicts"] = [
            verdict(found) | {"gpu": gpu, "function": "TensorFlow", "bytes": found.grown_bytes, "blocks": 0}
        ]


def verdict(found: Growth) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "bytes_per_epoch": found.bytes_per_step,
        "bytes_per_step": found.bytes_per_step,
        "epochs": found.steps,
        "confidence": found.confidence,
        "pattern": PATTERN,
        "advice": ADVICE,
    }

"""Sizes that fit no handle well: k x 2 MiB + 512 B, so that whoever hands out whole handles wastes nearly one each."""

from __future__ import annotations

import dataclasses
import random

from .distributions import lifetime, log_uniform
from .recorder import GIB, MIB, Recorder


@dataclasses.dataclass(frozen=True)
class Parameters:
    iterations: int = 32_000
    warm_up_iterations: int = 8_000
    memory: int = 6 * GIB
    unit: int = 2 * MIB
    excess: int = 512
    # In units.
    largest: int = 64
    # In iterations; every eighth tensor stays ten times as long.
    mean_iterations: float = 220.0


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder()
    # By the iteration in which they are freed.
    leaving: dict[int, list[int]] = {}
    for iteration in recorder.rounds(parameters.iterations, parameters.warm_up_iterations):
        recorder.free_all(leaving.pop(iteration, []))
        size = log_uniform(chance, 1, parameters.largest) * parameters.unit + parameters.excess
        if recorder.live_bytes + size > parameters.memory:
            continue
        mean = parameters.mean_iterations * (10 if chance.random() < 1 / 8 else 1)
        leaving.setdefault(iteration + lifetime(chance, mean), []).append(recorder.allocate(size))
    return recorder

"""Long-lived small survivors pinned inside big freed areas, as in PyTorch's issue 35901.

Work comes in phases. Each fills the memory with large tensors; among them it leaves small results that are kept for
many phases. The large ones are freed, and the next phase wants other sizes, up to one tensor of half the memory:
contiguous free memory there is only around the survivors.
"""

from __future__ import annotations

import collections
import dataclasses
import random

from .distributions import lifetime, log_uniform
from .recorder import GIB, KIB, MIB, Recorder


@dataclasses.dataclass(frozen=True)
class Parameters:
    phases: int = 45
    warm_up_phases: int = 12
    memory: int = 8 * GIB
    # The largest single tensor, which every third phase begins with, as a part of the memory.
    giant_part: float = 0.5
    smallest: int = 4 * MIB
    largest: int = 384 * MIB
    # For each large tensor; half of the survivors are below 64 KiB.
    survivors: int = 2
    largest_survivor: int = 3 * MIB
    mean_phases: float = 8.0
    # Small tensors that come and go for each large one.
    passing: int = 1


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder()
    # By phase in which they are freed.
    survivors: dict[int, list[int]] = collections.defaultdict(list)
    for phase in recorder.rounds(parameters.phases, parameters.warm_up_phases):
        _run_phase(recorder, chance, parameters, phase, survivors)
        leaving = survivors.pop(phase, [])
        chance.shuffle(leaving)
        recorder.free_all(leaving)
    return recorder


def _run_phase(
    recorder: Recorder,
    chance: random.Random,
    parameters: Parameters,
    phase: int,
    survivors: dict[int, list[int]],
) -> None:
    large = []
    if phase % 3 == 2:
        giant = round(parameters.memory * parameters.giant_part) - chance.randint(0, 64) * MIB
        large.append(recorder.allocate(giant))
    # Of each phase's own scale, so that holes of the one before do not fit.
    scale = log_uniform(chance, 8 * parameters.smallest, parameters.largest)
    full = parameters.memory * chance.randint(80, 97) // 100
    while True:
        size = log_uniform(chance, parameters.smallest, scale)
        if recorder.live_bytes + size > full:
            break
        large.append(recorder.allocate(size))
        passing = [recorder.allocate(log_uniform(chance, 512, 2 * MIB)) for _ in range(parameters.passing)]
        for _ in range(parameters.survivors):
            most = 64 * KIB if chance.random() < 0.5 else parameters.largest_survivor
            end = phase + lifetime(chance, parameters.mean_phases)
            survivors[end].append(recorder.allocate(log_uniform(chance, 512, most)))
        recorder.free_all(passing)
    # Backwards for the most part; some of the middle first.
    large.reverse()
    for _ in range(len(large) // 5):
        large.append(large.pop(chance.randrange(len(large))))
    recorder.free_all(large)

"""Several pools side by side: streams that each do steady work of their own, and take turns in doing much of it.

An allocator that keeps freed memory on its stream holds the sum of all streams' peaks, which never come together.
"""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import GIB, KIB, MIB, Recorder


@dataclasses.dataclass(frozen=True)
class Parameters:
    streams: int = 6
    rounds: int = 130
    warm_up_rounds: int = 40
    memory: int = 6 * GIB
    # Rounds after which the next stream becomes the busy one.
    busy_rounds: int = 8
    smallest_work: int = 256 * KIB
    largest_work: int = 96 * MIB
    depth: int = 24
    # Events that the streams are behind the host.
    stream_lag: int = 32


@dataclasses.dataclass
class _Work:
    """One stream's steady work: the same tensors in every round, as many of them as there is memory for."""

    stream: int
    sizes: list[int]
    kept: list[int]


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder(parameters.stream_lag)
    works = []
    for stream in range(parameters.streams):
        sizes = [
            log_uniform(chance, parameters.smallest_work, parameters.largest_work) for _ in range(parameters.depth)
        ]
        kept = [recorder.allocate(log_uniform(chance, 64 * KIB, 32 * MIB), stream) for _ in range(16)]
        works.append(_Work(stream, sizes, kept))
    for round_number in recorder.rounds(parameters.rounds, parameters.warm_up_rounds):
        busy = round_number // parameters.busy_rounds % parameters.streams
        _run_round(recorder, chance, parameters, works, busy)
    return recorder


def _run_round(
    recorder: Recorder, chance: random.Random, parameters: Parameters, works: list[_Work], busy: int
) -> None:
    """All streams go through their tensors, forwards and then back, the host serving them in turns."""
    order = list(works)
    chance.shuffle(order)
    made: dict[int, list[int]] = {work.stream: [] for work in works}
    room = parameters.memory - recorder.live_bytes
    for work in order:
        share = room * 7 // 10 if work.stream == busy else room * 3 // 10 // (parameters.streams - 1)
        _fill(recorder, work, share, made[work.stream])
        recorder.temporary(log_uniform(chance, 512, 2 * MIB), work.stream)
    while any(made.values()):
        work = chance.choice(works)
        if made[work.stream]:
            recorder.free(made[work.stream].pop())


def _fill(recorder: Recorder, work: _Work, share: int, made: list[int]) -> None:
    taken = 0
    # The busy stream goes round its sizes more than once.
    for size in work.sizes * 8:
        if taken + size > share:
            break
        made.append(recorder.allocate(size, work.stream))
        taken += size

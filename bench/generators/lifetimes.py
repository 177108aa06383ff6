"""Programs whose tensors have random sizes and lifetimes."""

from __future__ import annotations

import collections
import dataclasses
import random

from .distributions import lifetime, log_uniform
from .recorder import GIB, KIB, MIB, Recorder


def odd_sizes(chance: random.Random, rounds: int = 32_000, warm_up: int = 8_000) -> Recorder:
    """Sizes that fit no handle well: k x 2 MiB + 512 B, so that who hands out whole handles wastes nearly one each."""
    recorder = Recorder()
    # By the iteration in which they are freed.
    leaving: dict[int, list[int]] = {}
    for iteration in recorder.rounds(rounds, warm_up):
        recorder.free_all(leaving.pop(iteration, []))
        size = log_uniform(chance, 1, 64) * 2 * MIB + 512
        if recorder.live_bytes + size > 6 * GIB:
            continue
        # Every eighth tensor stays ten times as long.
        mean = 220.0 * (10 if chance.random() < 1 / 8 else 1)
        leaving.setdefault(iteration + lifetime(chance, mean), []).append(recorder.allocate(size))
    return recorder


@dataclasses.dataclass(frozen=True)
class _Call:
    # The number of the tensor in the iteration, allocated or, without a size, freed.
    tensor: int
    size: int | None = None
    stream: int = 0


def fixed_random(chance: random.Random, rounds: int = 12, streams: int = 1, stream_lag: int = 0) -> Recorder:
    """A loop of random sizes and lifetimes, repeated exactly, over memory that is allocated once and stays."""
    recorder = Recorder(stream_lag)
    for _ in range(200):
        recorder.allocate(log_uniform(chance, 4 * KIB, 16 * MIB), chance.randrange(streams))
    calls = _draw_iteration(chance, streams, 5 * GIB - recorder.live_bytes)
    for _ in range(rounds):
        made = {}
        for call in calls:
            if call.size is None:
                recorder.free(made.pop(call.tensor))
            else:
                made[call.tensor] = recorder.allocate(call.size, call.stream)
        recorder.end_iteration()
    return recorder


def _draw_iteration(chance: random.Random, streams: int, memory: int) -> list[_Call]:
    calls: list[_Call] = []
    leaving: dict[int, list[_Call]] = {}
    live = 0
    for tensor in range(2_400):
        for call in leaving.pop(tensor, []):
            calls.append(_Call(call.tensor))
            live -= call.size or 0
        size = log_uniform(chance, 512, 256 * MIB)
        if live + size > memory:
            continue
        call = _Call(tensor, size, chance.randrange(streams))
        live += size
        calls.append(call)
        leaving.setdefault(tensor + lifetime(chance, 90.0), []).append(call)
    return calls + [_Call(call.tensor) for end in sorted(leaving) for call in leaving[end]]


def pinned_survivors(chance: random.Random, rounds: int = 45, warm_up: int = 12) -> Recorder:
    """Long-lived small survivors pinned inside big freed areas, as in PyTorch's issue 35901.

    Work comes in phases. Each fills the memory with large tensors; among them it leaves small results that are kept for
    many phases. The large ones are freed, and the next phase wants other sizes, up to one tensor of half the memory:
    contiguous free memory there is only around the survivors.
    """
    recorder = Recorder()
    # By phase in which they are freed.
    survivors: dict[int, list[int]] = collections.defaultdict(list)
    for phase in recorder.rounds(rounds, warm_up):
        _run_phase(recorder, chance, phase, survivors)
        leaving = survivors.pop(phase, [])
        chance.shuffle(leaving)
        recorder.free_all(leaving)
    return recorder


def _run_phase(recorder: Recorder, chance: random.Random, phase: int, survivors: dict[int, list[int]]) -> None:
    memory = 8 * GIB
    large = []
    if phase % 3 == 2:
        large.append(recorder.allocate(memory // 2 - chance.randint(0, 64) * MIB))
    # Of each phase's own scale, so that holes of the one before do not fit.
    scale = log_uniform(chance, 32 * MIB, 384 * MIB)
    full = memory * chance.randint(80, 97) // 100
    while True:
        size = log_uniform(chance, 4 * MIB, scale)
        if recorder.live_bytes + size > full:
            break
        large.append(recorder.allocate(size))
        passing = recorder.allocate(log_uniform(chance, 512, 2 * MIB))
        for _ in range(2):
            most = 64 * KIB if chance.random() < 0.5 else 3 * MIB
            end = phase + lifetime(chance, 8.0)
            survivors[end].append(recorder.allocate(log_uniform(chance, 512, most)))
        recorder.free(passing)
    # Backwards for the most part; some of the middle first.
    large.reverse()
    for _ in range(len(large) // 5):
        large.append(large.pop(chance.randrange(len(large))))
    recorder.free_all(large)

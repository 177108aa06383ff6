"""A loop of random sizes and lifetimes, repeated exactly, over memory that is allocated once and stays."""

from __future__ import annotations

import dataclasses
import random

from .distributions import lifetime, log_uniform
from .recorder import GIB, KIB, MIB, Recorder


@dataclasses.dataclass(frozen=True)
class Parameters:
    iterations: int = 12
    tensors_a_turn: int = 2_400
    streams: int = 1
    memory: int = 5 * GIB
    persistent: int = 200
    largest_persistent: int = 16 * MIB
    smallest: int = 512
    largest: int = 256 * MIB
    mean_lifetime: float = 90.0
    stream_lag: int = 0


FOUR_STREAMS = Parameters(streams=4, stream_lag=32)


@dataclasses.dataclass(frozen=True)
class _Call:
    # The number of the tensor in the iteration, allocated or, without a size, freed.
    tensor: int
    size: int | None = None
    stream: int = 0


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder(parameters.stream_lag)
    for _ in range(parameters.persistent):
        recorder.allocate(
            log_uniform(chance, 4 * KIB, parameters.largest_persistent), chance.randrange(parameters.streams)
        )
    calls = _draw_turn(chance, parameters, parameters.memory - recorder.live_bytes)
    for _ in range(parameters.iterations):
        made = {}
        for call in calls:
            if call.size is None:
                recorder.free(made.pop(call.tensor))
            else:
                made[call.tensor] = recorder.allocate(call.size, call.stream)
        recorder.end_iteration()
    return recorder


def _draw_turn(chance: random.Random, parameters: Parameters, memory: int) -> list[_Call]:
    calls: list[_Call] = []
    leaving: dict[int, list[_Call]] = {}
    live = 0
    for tensor in range(parameters.tensors_a_turn):
        for call in leaving.pop(tensor, []):
            calls.append(_Call(call.tensor))
            live -= call.size or 0
        size = log_uniform(chance, parameters.smallest, parameters.largest)
        if live + size > memory:
            continue
        call = _Call(tensor, size, chance.randrange(parameters.streams))
        live += size
        calls.append(call)
        leaving.setdefault(tensor + lifetime(chance, parameters.mean_lifetime), []).append(call)
    remaining = [call for end in sorted(leaving) for call in leaving[end]]
    return calls + [_Call(call.tensor) for call in remaining]

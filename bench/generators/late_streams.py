"""Producer and consumer streams with late frees: what one stream makes, another goes on using after it is freed.

As in sharded data-parallel training: a stream copies batches ahead, another gathers each layer's weights ahead of the
forward and backward pass and scatters gradients, the default stream computes. The host runs ahead of all of them.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable

from .distributions import log_uniform
from .recorder import MIB, Recorder

_COMPUTE, _COPY, _GATHER, _SCATTER = range(4)


@dataclasses.dataclass(frozen=True)
class Parameters:
    steps: int = 60
    warm_up_steps: int = 12
    layers: int = 24
    # Of one layer's gathered weights, in half precision.
    layer_bytes: int = 2 * (12 * 2_048 * 2_048)
    hidden: int = 2_048
    batch: int = 4
    shortest: int = 128
    longest: int = 1_024
    batches_ahead: int = 3
    layers_ahead: int = 2
    # Events that the streams are behind the host.
    stream_lag: int = 40
    most_late: int = 90


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder(parameters.stream_lag)
    run = _Run(recorder, chance, parameters)
    for _ in recorder.rounds(parameters.steps, parameters.warm_up_steps):
        run.train_step()
    return recorder


@dataclasses.dataclass
class _Batch:
    length: int
    tensors: list[int]


class _Run:
    def __init__(self, recorder: Recorder, chance: random.Random, parameters: Parameters) -> None:
        self._recorder = recorder
        self._chance = chance
        self._parameters = parameters
        shard = parameters.layer_bytes // 4
        self._shards = [recorder.allocate(shard * 3) for _ in range(parameters.layers)]
        self._batches: collections.deque[_Batch] = collections.deque()
        # The event at which each stream is done with what was freed so far.
        self._done_at = [0] * 4

    def train_step(self) -> None:
        parameters = self._parameters
        while len(self._batches) < parameters.batches_ahead:
            self._batches.append(self._fetch())
        batch = self._batches.popleft()
        tokens = parameters.batch * batch.length
        kept: list[list[int]] = []
        self._in_every_layer(lambda: kept.append(self._forward_layer(tokens)))
        self._in_every_layer(lambda: self._backward_layer(tokens, kept.pop()))
        for tensor in batch.tensors:
            self._free_late(tensor, _COMPUTE)

    def _fetch(self) -> _Batch:
        parameters = self._parameters
        length = log_uniform(self._chance, parameters.shortest, parameters.longest)
        sizes = [parameters.batch * length * size for size in (8, 8, 1)] + [parameters.batch * length * 1_500]
        return _Batch(length, [self._recorder.allocate(size, _COPY) for size in sizes])

    def _in_every_layer(self, compute: Callable[[], None]) -> None:
        """Weights are gathered some layers ahead, and freed late after the layer that used them."""
        layers = self._parameters.layers
        gathered: collections.deque[int] = collections.deque()
        for layer in range(layers):
            while len(gathered) <= self._parameters.layers_ahead and layer + len(gathered) < layers:
                gathered.append(self._recorder.allocate(self._parameters.layer_bytes, _GATHER))
            compute()
            self._free_late(gathered.popleft(), _COMPUTE)

    def _forward_layer(self, tokens: int) -> list[int]:
        recorder = self._recorder
        wide = tokens * self._parameters.hidden * 2
        kept = [recorder.allocate(size) for size in (wide, 3 * wide, wide, tokens * 64, wide, wide // 2)]
        recorder.temporary(log_uniform(self._chance, 64 << 10, 32 * MIB))
        kept += [recorder.allocate(size) for size in (4 * wide, 4 * wide, wide)]
        return kept

    def _backward_layer(self, tokens: int, kept: list[int]) -> None:
        recorder, parameters = self._recorder, self._parameters
        gradient = recorder.allocate(parameters.layer_bytes)
        while kept:
            flowing = recorder.allocate(tokens * parameters.hidden * 2 * self._chance.choice((1, 3, 4)))
            recorder.free(kept.pop())
            recorder.free(flowing)
        scattered = recorder.allocate(parameters.layer_bytes // 4, _SCATTER)
        self._free_late(gradient, _SCATTER)
        self._free_late(scattered, _COMPUTE)

    def _free_late(self, tensor: int, stream: int) -> None:
        now = self._recorder.event_count
        after = max(
            self._chance.randint(self._parameters.stream_lag, self._parameters.most_late), self._done_at[stream] - now
        )
        self._done_at[stream] = now + after
        self._recorder.free_late(tensor, stream, after)

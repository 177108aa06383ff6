"""Programs of several streams, which run behind the host."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable

from .distributions import log_uniform
from .recorder import GIB, KIB, MIB, Recorder


@dataclasses.dataclass
class _Work:
    """One stream's steady work: the same tensors in every round, as many of them as there is memory for."""

    stream: int
    sizes: list[int]
    # Of the round that runs.
    made: list[int] = dataclasses.field(default_factory=list)


def many_pools(chance: random.Random, rounds: int = 130, warm_up: int = 40) -> Recorder:
    """Several pools side by side: streams that each do steady work of their own, and take turns in doing much of it.

    An allocator that keeps freed memory on its stream holds the sum of all streams' peaks, which never come together.
    """
    recorder = Recorder(stream_lag=32)
    works = []
    for stream in range(6):
        works.append(_Work(stream, [log_uniform(chance, 256 * KIB, 96 * MIB) for _ in range(24)]))
        # These stay.
        recorder.allocate_all((log_uniform(chance, 64 * KIB, 32 * MIB) for _ in range(16)), stream)
    for round_number in recorder.rounds(rounds, warm_up):
        # After eight rounds the next stream becomes the busy one.
        _run_round(recorder, chance, works, busy=round_number // 8 % len(works))
    return recorder


def _run_round(recorder: Recorder, chance: random.Random, works: list[_Work], busy: int) -> None:
    """All streams go through their tensors, forwards and then back, the host serving them in turns."""
    order = list(works)
    chance.shuffle(order)
    room = 6 * GIB - recorder.live_bytes
    for work in order:
        _fill(recorder, work, room * 7 // 10 if work.stream == busy else room * 3 // 10 // (len(works) - 1))
        recorder.temporary(log_uniform(chance, 512, 2 * MIB), work.stream)
    while any(work.made for work in works):
        work = chance.choice(works)
        if work.made:
            recorder.free(work.made.pop())


def _fill(recorder: Recorder, work: _Work, share: int) -> None:
    taken = 0
    # The busy stream goes round its sizes more than once.
    for size in work.sizes * 8:
        if taken + size > share:
            break
        work.made.append(recorder.allocate(size, work.stream))
        taken += size


def late_streams(chance: random.Random, rounds: int = 60, warm_up: int = 12) -> Recorder:
    """Producer and consumer streams with late frees: what one stream makes, another goes on using after it is freed.

    As in sharded data-parallel training: a stream copies batches ahead, another gathers each layer's weights ahead of
    the forward and backward pass and scatters gradients, the default stream computes. The host runs ahead of all.
    """
    run = _Sharded(chance)
    for _ in run.rounds(rounds, warm_up):
        run.train_step()
    return run


_COMPUTE, _COPY, _GATHER, _SCATTER = range(4)
_LAYERS, _HIDDEN, _BATCH = 24, 2_048, 4
# Of one layer's gathered weights, in half precision.
_LAYER_BYTES = 2 * (12 * _HIDDEN * _HIDDEN)
_BATCHES_AHEAD, _LAYERS_AHEAD = 3, 2
# Events that a stream is behind the host.
_LEAST_LATE, _MOST_LATE = 40, 90


class _Sharded(Recorder):
    def __init__(self, chance: random.Random) -> None:
        super().__init__(stream_lag=_LEAST_LATE)
        self._chance = chance
        # A quarter of each layer's weights, and of the optimizer's two moments.
        self.allocate_all([_LAYER_BYTES // 4 * 3] * _LAYERS)
        # The length of each batch, and its tensors.
        self._batches: collections.deque[tuple[int, list[int]]] = collections.deque()
        # The event at which each stream is done with what was freed so far.
        self._done_at = [0] * 4

    def train_step(self) -> None:
        while len(self._batches) < _BATCHES_AHEAD:
            length = log_uniform(self._chance, 128, 1_024)
            self._batches.append(
                (length, self.allocate_all((_BATCH * length * size for size in (8, 8, 1, 1_500)), _COPY))
            )
        length, tensors = self._batches.popleft()
        tokens = _BATCH * length
        kept: list[list[int]] = []
        self._in_every_layer(lambda: kept.append(self._forward_layer(tokens)))
        self._in_every_layer(lambda: self._backward_layer(tokens, kept.pop()))
        for tensor in tensors:
            self._free_after(tensor, _COMPUTE)

    def _in_every_layer(self, compute: Callable[[], None]) -> None:
        """Weights are gathered some layers ahead, and freed late after the layer that used them."""
        gathered: collections.deque[int] = collections.deque()
        for layer in range(_LAYERS):
            while len(gathered) <= _LAYERS_AHEAD and layer + len(gathered) < _LAYERS:
                gathered.append(self.allocate(_LAYER_BYTES, _GATHER))
            compute()
            self._free_after(gathered.popleft(), _COMPUTE)

    def _forward_layer(self, tokens: int) -> list[int]:
        wide = tokens * _HIDDEN * 2
        kept = self.allocate_all((wide, 3 * wide, wide, tokens * 64, wide, wide // 2))
        self.temporary(log_uniform(self._chance, 64 * KIB, 32 * MIB))
        return kept + self.allocate_all((4 * wide, 4 * wide, wide))

    def _backward_layer(self, tokens: int, kept: list[int]) -> None:
        gradient = self.allocate(_LAYER_BYTES)
        while kept:
            flowing = self.allocate(tokens * _HIDDEN * 2 * self._chance.choice((1, 3, 4)))
            self.free_all([kept.pop(), flowing])
        scattered = self.allocate(_LAYER_BYTES // 4, _SCATTER)
        self._free_after(gradient, _SCATTER)
        self._free_after(scattered, _COMPUTE)

    def _free_after(self, tensor: int, stream: int) -> None:
        """While the stream goes on using it; what a stream does ends in order."""
        now = self.event_count
        after = max(self._chance.randint(_LEAST_LATE, _MOST_LATE), self._done_at[stream] - now)
        self._done_at[stream] = now + after
        self.free_late(tensor, stream, after)

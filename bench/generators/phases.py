"""Phases of a program that follow one another on a GPU of a size that people have, a few per cent of each surviving it.

Memory is ample at first and full later. Each phase has sizes of its own, from 512 bytes to some GiB; what it leaves
lies between what it frees, in order, backwards or at random. The last phase wants one size only, at most a 400th of the
GPU: `bench left_over` measures how many of these there is still room for.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random

from .distributions import lifetime, log_uniform
from .recorder import GIB, KIB, MIB, Recorder

GPUS = (8 * GIB, 24 * GIB, 48 * GIB, 80 * GIB, 139 * GIB, 288 * GIB)
# The last phase's size is at most this part of the GPU, so that one more or less of them is no difference.
LAST_PART = 400
# And at least this part of it, so that they are not too many to be played in a moment.
LEAST_LAST_PART = 4000
ORDERS = IN_ORDER, BACKWARDS, AT_RANDOM, ANY_ORDER = 1, 2, 3, 4
GRAINS = (512, 64 * KIB, MIB, 2 * MIB)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Sizes in bytes."""

    memory: int = 80 * GIB
    # Before the last one.
    phases: int = 5
    streams: int = 2
    # The most in a phase; where they are small, it ends before the memory is as full as it should be.
    tensors: int = 2_000
    # The live part of the memory at which the first phase and the last of these end; geometric between.
    first_fill: float = 0.3
    last_fill: float = 0.92
    # Of the largest tensor in a phase and of the smallest; each phase draws a range within.
    smallest: int = 64 * KIB
    largest: int = 1 * GIB
    # How many there are in a phase, which take turns.
    sizes: int = 6
    # All are multiples of it.
    grain: int = 1 * MIB
    # IN_ORDER, BACKWARDS, AT_RANDOM, or ANY_ORDER: each phase draws one of these.
    order: int = ANY_ORDER
    # How many small survivors are made beside each tensor (a cache's entry), and as one is freed (a gradient).
    survivors: float = 0.5
    while_freeing: float = 0.1
    smallest_survivor: int = 512
    largest_survivor: int = 4 * MIB
    # The part of the tensors that survives their phase.
    kept: float = 0.01
    # All survivors together never have more than this part of the memory.
    survivor_part: float = 0.06
    # Phases that a survivor lives, on average.
    mean_phases: float = 6.0
    # The part of the last phase but one that is live during the last.
    remaining: float = 0.05
    # Of the last phase.
    last_size: int = 128 * MIB

    @property
    def last_stream(self) -> int:
        """Where the last phase is: a stream that has had work before."""
        return self.streams - 1


# Programs that stay as they are, by the name of their history.
FIXED: dict[str, Parameters] = {
    "phases_24": Parameters(memory=24 * GIB, largest=256 * MIB, last_size=32 * MIB),
    "phases_80": Parameters(),
    # Layers: two activations are kept for the backward pass, a cache's entry or a gradient of 3 MiB stays for good.
    "phases_139": Parameters(
        memory=139 * GIB,
        phases=4,
        streams=1,
        tensors=4_000,
        smallest=24 * MIB,
        largest=48 * MIB,
        sizes=2,
        order=BACKWARDS,
        while_freeing=0.5,
        smallest_survivor=3 * MIB,
        largest_survivor=3 * MIB,
        last_size=256 * MIB,
    ),
    # The worst that a search of 6 minutes found for the policy at that time, on a GPU of 288 GiB; a replay has room for
    # 200, of which this takes less.
    "phases_worst": Parameters(
        memory=80 * GIB,
        phases=1,
        streams=1,
        tensors=4_000,
        first_fill=0.1312,
        last_fill=0.95,
        smallest=16_155_372,
        largest=28_500_144,
        sizes=88,
        order=AT_RANDOM,
        survivors=1.0,
        while_freeing=0.132,
        smallest_survivor=26_491,
        largest_survivor=16_979_259,
        kept=0.0017,
        survivor_part=0.12,
        mean_phases=1.0,
        remaining=0.3,
        last_size=102 * MIB,
    ),
}


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    """All phases, of which the last takes no more than `last_fill`, so that it ends where memory is enough."""
    recorder = begin(chance, parameters)
    full = round(parameters.memory * parameters.last_fill)
    last = []
    while recorder.live_bytes + parameters.last_size <= full:
        last.append(recorder.allocate(parameters.last_size, parameters.last_stream))
    recorder.free_all(last)
    return recorder


def begin(chance: random.Random, parameters: Parameters) -> Recorder:
    """All phases but the last."""
    program = _Program(chance, parameters)
    for phase in range(parameters.phases):
        program.run(phase)
    return program


def random_parameters(seed: int) -> Parameters:
    """A whole program, GPU included: the same for the same seed on every machine."""
    chance = random.Random(seed)
    memory = chance.choice(GPUS)
    phases = chance.randint(1, 6)
    smallest = log_uniform(chance, 512, memory // 4_000)
    largest_survivor = log_uniform(chance, 256 * KIB, 16 * MIB)
    return Parameters(
        memory=memory,
        phases=phases,
        streams=chance.choice((1, 1, 2, 3, 4)),
        tensors=log_uniform(chance, 1_500, 24_000 // phases),
        first_fill=chance.uniform(0.1, 0.9),
        last_fill=chance.uniform(0.85, 0.95),
        smallest=smallest,
        largest=log_uniform(chance, max(smallest, memory // 8_000), min(2 * GIB, memory // 16)),
        sizes=log_uniform(chance, 1, 1_000),
        grain=chance.choice(GRAINS),
        order=chance.choice(ORDERS),
        survivors=log_uniform(chance, 100, 1_000) / 1_000,
        while_freeing=log_uniform(chance, 10, 500) / 1_000,
        smallest_survivor=log_uniform(chance, 512, largest_survivor),
        largest_survivor=largest_survivor,
        kept=log_uniform(chance, 1, 50) / 1_000,
        survivor_part=chance.uniform(0.02, 0.12),
        mean_phases=float(log_uniform(chance, 2, 16)),
        remaining=log_uniform(chance, 1, 100) / 1_000,
        last_size=log_uniform(chance, memory // LEAST_LAST_PART, memory // LAST_PART),
    )


def border_parameters(seed: int) -> Parameters:
    """A whole program whose sizes lie around 512 KiB, 1, 2 or 16 MiB, where allocators put blocks apart; likewise."""
    chance = random.Random(seed * 7919 + 11)
    memory = chance.choice((8, 8, 8, 24)) * GIB
    border = chance.choice((512 * KIB, MIB, 2 * MIB, 2 * MIB, 16 * MIB))
    smallest, largest = int(border * chance.uniform(0.3, 1.0)), int(border * chance.uniform(1.0, 3.0))
    smallest_survivor = int(border * chance.choice((0.01, 0.1, 0.3, 0.9)))
    largest_survivor = int(max(smallest_survivor, border * chance.choice((0.3, 0.95, 1.1, 2.2))))
    phases = chance.randint(1, 5)
    return Parameters(
        memory=memory,
        phases=phases,
        streams=chance.choice((1, 1, 1, 2, 3, 4)),
        tensors=min(24_000 // phases, max(1_500, int(chance.uniform(0.2, 1.5) * memory / ((smallest + largest) / 2)))),
        first_fill=chance.uniform(0.1, 0.9),
        last_fill=chance.uniform(0.85, 0.95),
        smallest=smallest,
        largest=largest,
        sizes=chance.choice((1, 2, 5, 31, 200)),
        grain=chance.choice((512, 64 * KIB, 512 * KIB)),
        order=chance.choice(ORDERS),
        survivors=chance.uniform(0.03, 0.6),
        while_freeing=chance.uniform(0, 0.3),
        smallest_survivor=smallest_survivor,
        largest_survivor=largest_survivor,
        kept=chance.uniform(0, 0.05),
        survivor_part=chance.uniform(0.03, 0.15),
        mean_phases=chance.uniform(1, 9),
        remaining=chance.uniform(0, 0.1),
        last_size=int(memory / chance.randint(400, 2_000)),
    )


class _Program(Recorder):
    def __init__(self, chance: random.Random, parameters: Parameters) -> None:
        super().__init__()
        self._chance = chance
        self._parameters = parameters
        # Survivors by the phase at whose end they are freed.
        self._leaving: dict[int, list[int]] = collections.defaultdict(list)
        self._survivor_bytes = 0

    def run(self, phase: int) -> None:
        chance, parameters = self._chance, self._parameters
        if phase == (parameters.phases + 2) // 3:
            self.end_warm_up()
        # One of them, or all.
        streams = list(range(parameters.streams))
        if chance.random() >= 0.5:
            streams = [chance.choice(streams)]
        tensors = self._fill(phase, streams)
        order = parameters.order if parameters.order != ANY_ORDER else chance.randint(IN_ORDER, AT_RANDOM)
        if order == BACKWARDS:
            tensors.reverse()
        elif order == AT_RANDOM:
            chance.shuffle(tensors)
        if phase == parameters.phases - 1:
            tensors = tensors[: round(len(tensors) * (1 - parameters.remaining))]
        for tensor in tensors:
            self.free(tensor)
            self._survive(phase, parameters.while_freeing, streams)
        leaving = self._leaving.pop(phase, [])
        chance.shuffle(leaving)
        self._survivor_bytes -= sum(map(self.size_of, leaving))
        self.free_all(leaving)

    def _fill(self, phase: int, streams: list[int]) -> list[int]:
        """The tensors that the phase itself will free."""
        parameters = self._parameters
        drawn = self._draw_sizes()
        done = phase / (parameters.phases - 1) if parameters.phases > 1 else 1
        growth = (parameters.last_fill / parameters.first_fill) ** done
        full = round(parameters.memory * parameters.first_fill * growth)
        tensors: list[int] = []
        for size in itertools.islice(itertools.cycle(drawn), parameters.tensors):
            if self.live_bytes + size > full:
                break
            tensor = self.allocate(size, self._chance.choice(streams))
            if self._chance.random() < parameters.kept and self._may_survive(size):
                self._keep(phase, tensor)
            else:
                tensors.append(tensor)
            self._survive(phase, parameters.survivors, streams)
        return tensors

    def _draw_sizes(self) -> list[int]:
        """Of a phase, in the order in which its layers have them."""
        chance, parameters = self._chance, self._parameters
        high = log_uniform(chance, max(parameters.smallest, parameters.largest // 16), parameters.largest)
        low = log_uniform(chance, parameters.smallest, high)
        sizes = [log_uniform(chance, low, high) for _ in range(parameters.sizes)]
        return [-(-size // parameters.grain) * parameters.grain for size in sizes]

    def _survive(self, phase: int, likely: float, streams: list[int]) -> None:
        """A small survivor, perhaps."""
        if self._chance.random() >= likely:
            return
        size = log_uniform(self._chance, self._parameters.smallest_survivor, self._parameters.largest_survivor)
        if self._may_survive(size):
            self._keep(phase, self.allocate(size, self._chance.choice(streams)))

    def _may_survive(self, size: int) -> bool:
        return self._survivor_bytes + size <= self._parameters.survivor_part * self._parameters.memory

    def _keep(self, phase: int, tensor: int) -> None:
        self._survivor_bytes += self.size_of(tensor)
        self._leaving[phase + lifetime(self._chance, self._parameters.mean_phases)].append(tensor)

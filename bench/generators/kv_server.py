"""An inference server: each request's keys and values grow as tokens are made, and requests end in any order.

A cache grows by being copied into a larger one: the copy is allocated, then the old one freed, layer by layer.
"""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import GIB, MIB, Recorder


@dataclasses.dataclass(frozen=True)
class Parameters:
    requests: int = 220
    warm_up_requests: int = 60
    memory: int = 8 * GIB
    weights: int = 3 * GIB
    layers: int = 12
    # Of keys, and of values, for one token in one layer.
    token_bytes: int = 4_096
    shortest_prompt: int = 32
    longest_prompt: int = 6_000
    most_new_tokens: int = 2_000
    # Tokens by which a cache grows at a time.
    growth: int = 192
    # How often a request is given up early, at each growth.
    dropped: float = 0.03


@dataclasses.dataclass
class _Request:
    tokens: int
    until: int
    caches: list[int]


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder()
    for _ in range(parameters.layers * 8):
        recorder.allocate(parameters.weights // (parameters.layers * 8))
    server = _Server(recorder, chance, parameters)
    for _ in recorder.rounds(parameters.requests, parameters.warm_up_requests):
        server.admit()
    return recorder


class _Server:
    def __init__(self, recorder: Recorder, chance: random.Random, parameters: Parameters) -> None:
        self._recorder = recorder
        self._chance = chance
        self._parameters = parameters
        self._running: list[_Request] = []

    def admit(self) -> None:
        """Decodes for the requests that run until the next one's prompt fits, then takes it in."""
        parameters = self._parameters
        tokens = log_uniform(self._chance, parameters.shortest_prompt, parameters.longest_prompt)
        until = tokens + self._chance.randint(16, parameters.most_new_tokens)
        while self._running and not self._fits(tokens + parameters.growth):
            self._decode()
        caches = [self._allocate_cache(tokens) for _ in range(2 * parameters.layers)]
        self._prefill(tokens)
        self._running.append(_Request(tokens, until, caches))

    def _fits(self, tokens: int) -> bool:
        needed = 2 * self._parameters.layers * tokens * self._parameters.token_bytes
        return self._recorder.live_bytes + needed + 64 * MIB <= self._parameters.memory

    def _decode(self) -> None:
        """One request grows or ends; in memory's need, the one that came last is dropped."""
        chance, parameters = self._chance, self._parameters
        request = chance.choice(self._running)
        if request.tokens >= request.until or chance.random() < parameters.dropped:
            return self._end(request)
        if not self._fits(parameters.growth):
            return self._end(self._running[-1])
        request.tokens += parameters.growth
        for number, old in enumerate(request.caches):
            request.caches[number] = self._allocate_cache(request.tokens)
            self._recorder.free(old)
        self._recorder.temporary(len(self._running) * 128_000)
        return None

    def _end(self, request: _Request) -> None:
        self._running.remove(request)
        self._recorder.free_all(request.caches)

    def _allocate_cache(self, tokens: int) -> int:
        return self._recorder.allocate(tokens * self._parameters.token_bytes)

    def _prefill(self, tokens: int) -> None:
        wide = min(tokens, 2_048) * self._parameters.token_bytes * 2
        for _ in range(self._parameters.layers):
            scratch = [self._recorder.allocate(size) for size in (wide, wide // 2, 3 * wide // 2)]
            self._recorder.free_all(scratch)

"""An inference server and its caches."""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import GIB, MIB, Recorder

_MEMORY, _WEIGHTS = 8 * GIB, 3 * GIB
_LAYERS = 12
# Of keys, and of values, for one token in one layer.
_TOKEN_BYTES = 4_096
# Tokens by which a cache grows at a time.
_GROWTH = 192
# How often a request is given up early, at each growth.
_DROPPED = 0.03


@dataclasses.dataclass
class _Request:
    tokens: int
    until: int
    caches: list[int]


def kv_server(chance: random.Random, rounds: int = 220, warm_up: int = 60) -> Recorder:
    """An inference server: each request's keys and values grow as tokens are made, and requests end in any order.

    A cache grows by being copied into a larger one: the copy is allocated, then the old one freed, layer by layer.
    """
    server = _Server(chance)
    server.allocate_all([_WEIGHTS // (_LAYERS * 8)] * (_LAYERS * 8))
    for _ in server.rounds(rounds, warm_up):
        server.admit()
    return server


class _Server(Recorder):
    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._running: list[_Request] = []

    def admit(self) -> None:
        """Decodes for the requests that run until the next one's prompt fits, then takes it in."""
        tokens = log_uniform(self._chance, 32, 6_000)
        until = tokens + self._chance.randint(16, 2_000)
        while self._running and not self._fits(tokens + _GROWTH):
            self._decode()
        caches = self.allocate_all([tokens * _TOKEN_BYTES] * (2 * _LAYERS))
        wide = min(tokens, 2_048) * _TOKEN_BYTES * 2
        for _ in range(_LAYERS):
            self.free_all(self.allocate_all((wide, wide // 2, 3 * wide // 2)))
        self._running.append(_Request(tokens, until, caches))

    def _fits(self, tokens: int) -> bool:
        return self.live_bytes + 2 * _LAYERS * tokens * _TOKEN_BYTES + 64 * MIB <= _MEMORY

    def _decode(self) -> None:
        """One request grows or ends; in memory's need, the one that came last is dropped."""
        request = self._chance.choice(self._running)
        if request.tokens >= request.until or self._chance.random() < _DROPPED:
            return self._end(request)
        if not self._fits(_GROWTH):
            return self._end(self._running[-1])
        request.tokens += _GROWTH
        for number, old in enumerate(request.caches):
            request.caches[number] = self.allocate(request.tokens * _TOKEN_BYTES)
            self.free(old)
        self.temporary(len(self._running) * 128_000)
        return None

    def _end(self, request: _Request) -> None:
        self._running.remove(request)
        self.free_all(request.caches)

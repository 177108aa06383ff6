"""Damage, as disks, networks and strangers do it: drawn from a seed, so that each case can be had again."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

# FRUGAL_FUZZ_ROUNDS=20 makes every test of this folder try twenty times as much; FRUGAL_TEST_SEED other cases.
ROUNDS = int(os.environ.get("FRUGAL_FUZZ_ROUNDS", "1"))
SEED = int(os.environ.get("FRUGAL_TEST_SEED", "1"))

INTERESTING = (
    b"",
    b"\0",
    b"\xff",
    b"\xff\xff\xff\x7f",
    b"\x80\x04",
    b"NaN",
    b"-1e999",
    b"1" * 5000,
    b"[" * 3000,
    b"\n\n",
)
NUMBERS = (-1, 0, 1, 1 << 31, 1 << 62, 1 << 64, 10**30, -0.0, 0.5, 1e300, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "\n",
    "\x00",
    "\x1b[2J",
    "\u202ebackwards",
    "\ud800",
    "<script>",
    "x" * 30_000,
    "../../etc/passwd",
    "9" * 5000,
)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one to five of: a bit or byte changed, a piece lost, doubled, moved or overwritten."""
    result = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        place = chance.randrange(len(result) + 1)
        length = int(2 ** chance.uniform(0, 12))
        kind = chance.randrange(6)
        if kind == 0 and place < len(result):
            result[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del result[place : place + length]
        elif kind == 2:
            result[place:place] = result[chance.randrange(len(result) + 1) :][:length]
        elif kind == 3:
            del result[place:]
        elif kind == 4:
            result[place:place] = chance.choice(INTERESTING)
        else:
            result[place : place + length] = chance.randbytes(min(length, 64))
    return bytes(result)


def spoiled(value: Any, chance: random.Random) -> Any:
    """A JSON value with one part of it replaced by something else, lost, or buried in lists."""
    if isinstance(value, (dict, list)) and value and chance.random() < 0.95:
        result = value.copy()
        key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        if chance.random() < 0.05:
            del result[key]
        else:
            result[key] = spoiled(value[key], chance)
        return result
    kind = chance.randrange(5)
    if kind == 0:
        return chance.choice(NUMBERS)
    if kind == 1:
        return chance.choice(TEXTS)
    if kind == 2:
        return chance.choice((None, True, False, [], {}, [[]], [None], {"": {}}))
    if kind == 3:
        for _ in range(chance.choice((1, 10, 200))):
            value = [value]
        return value
    return [value] * chance.choice((0, 2, 100))


def cases(sources: dict[str, bytes], count: int, name: str) -> Iterator[tuple[str, bytes]]:
    """`count` times the rounds damaged files, each with words that say how to have it again."""
    packings: list[Callable[[bytes], bytes]] = [bytes, bytes, gzip.compress, lzma.compress]
    names = sorted(sources)
    for number in range(count * ROUNDS):
        chance = random.Random(f"{name} {SEED} {number}")
        source = chance.choice(names)
        data = sources[source]
        if data[:1] in (b"{", b"[") and chance.random() < 0.6:
            value = json.loads(data)
            for _ in range(chance.choice([1, 1, 2, 4])):
                value = spoiled(value, chance)
            data = json.dumps(value).encode()
        packed = chance.choice(packings)(data)
        if packed == data == sources[source] or chance.random() < 0.4:
            packed = damaged(packed, chance)
        yield f"{name}, seed {SEED}, case {number}, from {source}", packed

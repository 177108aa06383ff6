"""What disks, networks and strangers send to whatever reads: values, things at a path, and damage drawn from a seed.

One list for all readers: files, settings, arguments, answers of other processes, texts of pages.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# FRUGAL_FUZZ_ROUNDS=20 makes every test that draws from here try twenty times as much; FRUGAL_TEST_SEED other cases.
ROUNDS = int(os.environ.get("FRUGAL_FUZZ_ROUNDS", "1"))
SEED = int(os.environ.get("FRUGAL_TEST_SEED", "1"))

BYTES = (b"", b"\0", b"\xff", b"\xff\xff\xff\x7f", b"\x80\x04", b"NaN", b"-1e999", b"1" * 5000, b"[" * 3000, b"\n\n")
NUMBERS = (-1, 0, 1, 1 << 31, 1 << 62, 1 << 64, 10**30, -0.0, 0.5, 1e300, float("inf"), float("-inf"), float("nan"))
# What steers a terminal, breaks a line, or has text read in another order than it is written.
STEERING = "\x1b[2J\x1b]0;owned\x07\r\n\t\u202e\u2066\u200f\x85\x9b31m\x7f\x00"
MARKUP = (
    "<script>alert(1)</script>", "</script><script>x()", "</style>", "</title>", "<!--", "-->", "<![CDATA[", "]]>",
    '"', "'", "`", "&", "&lt;", "&#x3c;img src=x onerror=y&#x3e;", '" onmouseover="x()', "' autofocus onfocus='x()",
    "javascript:x()", "data:text/html,<b>", "<img src=x onerror=x()>", "<svg/onload=x()>", "<a href=//evil>",
    "</code></p>", "{{ 7 * 7 }}", "{% include 'page.js' %}", "{# #}", "${7*7}", "\\u003cscript\\u003e", "\\", "//",
    "/*", "*/", "%3Cscript%3E",
)  # fmt: skip
LETTERS = (
    *STEERING, "\x01", "\x08", "\x0b", "\x0c", "\u2028", "\u2029", "\ufeff", "\ufffe", "\ud800", "\udfff", "\udc80",
    "\U0010ffff", "e\u0301\u0302" * 5, "\ufdfa", "\u0627\u0644\u0639", "\u65e5\u672c",
)  # fmt: skip
TEXTS = ("", "\n", "\x00", STEERING, "\ud800", MARKUP[0], "x" * 30_000, "../../etc/passwd", "9" * 5000)

# What may be where a file is expected; each is given the path.
THINGS: dict[str, Callable[[Path], Any]] = {
    "nothing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe that nobody writes to": os.mkfifo,
    # Not by bind(), which takes a path of 107 bytes at most.
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "a link to a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to an empty device": lambda path: path.symlink_to("/dev/null"),
    "a link to a file without end": lambda path: path.symlink_to("/proc/self/mem"),
}
NAMES = {
    "plain": "given",
    "of two lines": "a\nfrugal-alloc report: all is well",
    "that steers the terminal": STEERING.replace("\x00", ""),
    "that is no text": os.fsdecode(b"\xff\xfe\x80"),
    "too long": "x" * 300,
}


def assert_one_line(text: str, case: str, most: int = 1500) -> None:
    """All that a user is told of it: short, and nothing in it that steers a terminal."""
    assert text and text.isprintable() and len(text) < most, f"{case}: {text!r}"


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
            result[place:place] = chance.choice(BYTES)
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

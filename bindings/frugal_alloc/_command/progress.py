"""What a command has done so far, on standard error, where that is a terminal."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator

_CLEAR_LINE = "\r\033[K"


@contextlib.contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yields a function that counts one step as done and says what it was. Any thread may call it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    done = itertools.count(1)

    def advance(step: str) -> None:
        print(f"{_CLEAR_LINE}{description} {next(done)}/{total}: {step}", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)

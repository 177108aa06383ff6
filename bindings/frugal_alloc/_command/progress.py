"""A progress bar on standard error, where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yields a function that counts one step as done and says what it was. Any thread may call it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        import rich.console
        import rich.progress
    except ImportError:
        yield from _plain_progress(description, total)
        return
    console = rich.console.Console(stderr=True)
    with rich.progress.Progress(console=console, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda step: bar.update(task, advance=1, description=f"{description}: {step}")


def _plain_progress(description: str, total: int) -> Iterator[Callable[[str], None]]:
    done = 0

    def advance(step: str) -> None:
        nonlocal done
        done += 1
        print(f"\r\033[K{description} {done}/{total}: {step}", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)

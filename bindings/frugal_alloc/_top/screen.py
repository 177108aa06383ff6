"""The picture on a terminal, again and again; or once, as text."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from . import layout

_STYLES = {"title": "bold", "head": "dim", "plain": "", "bad": "red", "warning": "yellow", "dim": "dim"}

Take = Callable[[], dict[str, Any]]


def print_once(picture: dict[str, Any], file: TextIO) -> None:
    """The picture as text; coloured where `file` is a terminal that shows colours, and rich is there."""
    width = shutil.get_terminal_size((layout.DEFAULT_WIDTH, 24)).columns if file.isatty() else layout.DEFAULT_WIDTH
    written = layout.lines(picture, width)
    console = _console(file)
    if console is None:
        print("\n".join(line.text for line in written), file=file)
    else:
        console.print(_text(written), soft_wrap=True)


def watch(take: Take, interval: float, file: TextIO) -> None:
    """Shows what `take` gives every `interval` seconds, until q is pressed. REQUIRES: `file` and the standard input are
    terminals. However it ends, the terminal is as it was."""
    with _keys() as key_pressed:
        console = _console(file)
        if console is None or console.is_dumb_terminal:
            _watch_plainly(take, interval, file, key_pressed)
            return
        from rich.live import Live

        with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(_text(_screen(take(), interval, console.size.width, console.size.height)), refresh=True)
                if key_pressed(interval):
                    return


def _watch_plainly(take: Take, interval: float, file: TextIO, key_pressed: Callable[[float], bool]) -> None:
    """Each picture below the one before."""
    while True:
        print_once(take(), file)
        print(file=file, flush=True)
        if key_pressed(interval):
            return


def _screen(picture: dict[str, Any], interval: float, width: int, height: int) -> list[layout.Line]:
    every = f"every {interval:g} s"
    written = [layout.Line(f"frugal-alloc top, {every}; q ends"[:width], "dim"), layout.Line("")]
    written += layout.lines(picture, width)
    if len(written) > height:
        left = len(written) - height + 1
        written = [*written[: height - 1], layout.Line(f"{left:,} more lines: the window is too low", "dim")]
    return written


def _console(file: TextIO) -> Any:
    """rich's, where that is there and `file` is a terminal."""
    if not file.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=file, highlight=False, markup=False, emoji=False)


def _text(written: list[layout.Line]) -> Any:
    from rich.text import Text

    text = Text(no_wrap=True, overflow="crop")
    for number, line in enumerate(written):
        text.append(("\n" if number else "") + line.text, _STYLES[line.style])
    return text


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yields what waits so many seconds, or until the window has another size; it returns whether q was pressed."""
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    handlers = {
        signal.SIGWINCH: lambda *_: None,
        # Who is put into the background and comes back finds the terminal as the shell has it.
        signal.SIGCONT: lambda *_: tty.setcbreak(keyboard, termios.TCSANOW),
        signal.SIGTERM: lambda *_: sys.exit(128 + signal.SIGTERM),
    }
    # A signal that comes just before the wait ends it, too.
    wake_before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    handlers_before = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def key_pressed(seconds: float) -> bool:
        ready, _, _ = select.select([keyboard, woken], [], [], seconds)
        if woken in ready:
            os.read(woken, 1 << 10)
        # No byte at all: the terminal is gone.
        return keyboard in ready and os.read(keyboard, 1 << 10) in (b"", b"q", b"Q", b"\x04")

    try:
        # Without a wait for output that a terminal does not take.
        tty.setcbreak(keyboard, termios.TCSANOW)
        yield key_pressed
    finally:
        for number, handler in handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wake_before)
        termios.tcsetattr(keyboard, termios.TCSANOW, before)
        os.close(woken)
        os.close(wake)

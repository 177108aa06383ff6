"""``frugal-alloc top``: what the processes of this machine do with GPU memory, as they do it: on a terminal again and
again, or once, as text."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import re
import select
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TextIO

from ..._common.arguments import INTERRUPTED, Parser
from . import layout, metrics, picture
from .view import KEYS, SORTS, View

_LEAST_INTERVAL, _MOST_INTERVAL = 0.1, 3600.0
_DESCRIPTION = (
    "Shows what the processes of this machine that run with frugal_alloc do with GPU memory: what is allocated, "
    "reserved and wasted, the peak, what leaks, and out-of-memory errors. A process is seen once it uses a GPU; those "
    "of other users are shown to root alone. On a terminal it goes on until q is pressed."
)


def add(parser: Parser) -> None:
    parser.description = _DESCRIPTION
    shown = parser.add_argument_group("what is shown")
    shown.add_argument("--gpu", metavar="N", type=int, help="only this GPU")
    shown.add_argument("--pid", metavar="PID", type=int, help="only this process")
    shown.add_argument("--user", metavar="NAME", help="only this user's processes")
    shown.add_argument("--sort", choices=SORTS, default="pid", help="by what (default pid)")
    output = parser.add_argument_group("output")
    output.add_argument("--once", action="store_true", help="print it once, as where the output is no terminal")
    output.add_argument("--json", action="store_true", help="print it once, as a JSON object")
    output.add_argument(
        "--interval",
        metavar="SECONDS",
        type=float,
        default=2.0,
        help="how often to look (default 2; 0.1 to 3600)",
    )
    output.add_argument(
        "--prometheus",
        metavar="[HOST:]PORT",
        help="serve the figures to Prometheus at this port (of 127.0.0.1, if no host is named) until Ctrl-C",
    )


def carry_out(options: argparse.Namespace) -> int:
    if not _LEAST_INTERVAL <= options.interval <= _MOST_INTERVAL:
        options.error(f"--interval {options.interval:g} is not possible: give 0.1 to 3600 seconds")
    if options.prometheus is not None and (options.json or options.once):
        options.error("--prometheus goes on until it is stopped: leave out --json and --once")
    view = View(options.gpu, options.pid, _number_of(options), options.sort)
    if options.prometheus is not None and view != View():
        options.error("--prometheus serves all: leave out --gpu, --pid, --user and --sort")
    try:
        if options.prometheus is not None:
            _serve(options)
        elif options.json:
            print(json.dumps(view.of(picture.take()), indent=2))
        elif options.once or not _has_screen():
            print_once(view.of(picture.take()), sys.stdout)
        else:
            watch(picture.take, view, options.interval, sys.stdout)
    except KeyboardInterrupt:  # the usual end of what goes on
        return INTERRUPTED
    return 0


def _number_of(options: argparse.Namespace) -> int | None:
    """The user that is asked for."""
    try:
        return None if options.user is None else pwd.getpwnam(options.user).pw_uid
    except KeyError:
        options.error(f"--user {options.user}: there is no such user")


def _has_screen() -> bool:
    return sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()


def _serve(options: argparse.Namespace) -> NoReturn:
    address = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s]+):)?(\d{1,5})", options.prometheus)
    if address is None or int(address[2]) > 65535:
        options.error(f"--prometheus {options.prometheus}: give a port, such as 9401, or 0.0.0.0:9401")
    where = metrics.serve((address[1] or "127.0.0.1").strip("[]"), int(address[2]))
    print(f"serving {where}", flush=True)
    while True:
        signal.pause()


# --- On a terminal.

Take = Callable[[], dict[str, Any]]


def print_once(picture: dict[str, Any], file: TextIO) -> None:
    """The picture as text; fitted to a terminal, and coloured if it shows colours, where rich is there."""
    if (console := _console(file)) is None:
        for line in layout.lines(picture):
            print(" " * line.indent + line.text, file=file)
    else:
        console.print(_group(layout.lines(picture, console.width)))


def watch(take: Take, view: View, interval: float, file: TextIO) -> None:
    """Shows what `take` gives every `interval` seconds, as the view says, until q is pressed. REQUIRES: `file` and the
    standard input are terminals. However it ends, the terminal is as it was."""
    with _keys() as typed:
        console = _console(file)
        if console is None or console.is_dumb_terminal:
            # Each picture below the one before.
            while True:
                print_once(view.of(take()), file)
                print(file=file, flush=True)
                if view.press(typed(interval), 0):
                    return
        from rich.live import Live

        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_screen(console, take(), interval, view), refresh=True)
                if view.press(typed(interval), console.height):
                    return


def _screen(console: Any, picture: dict[str, Any], interval: float, view: View) -> Any:
    from rich.console import Group
    from rich.segment import SegmentLines

    def rendered(is_low: bool) -> list:
        return console.render_lines(_group(layout.lines(shown, console.width, is_low)), pad=False)

    title = _group(
        [layout.Line(f"frugal-alloc top, every {interval:g} s; {KEYS}", "dim", is_row=True), layout.Line("")]
    )
    shown = view.of(picture)
    room = console.height - 2
    rows = rendered(is_low=False)
    if len(rows) <= room:
        view.first = 0
        return Group(title, SegmentLines(rows, new_lines=True))
    rows, room = rendered(is_low=True), room - 1
    view.first = max(0, min(view.first, len(rows) - room))
    left = len(rows) - view.first - room
    below = layout.Line(f"{max(left, 0):,} more lines below, {view.first:,} above", "dim", is_row=True)
    return Group(title, SegmentLines(rows[view.first : view.first + room], new_lines=True), _group([below]))


def _console(file: TextIO) -> Any:
    """rich's, where that is there and `file` is a terminal."""
    if not file.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=file, highlight=False, markup=False, emoji=False)


def _group(lines: Iterable[layout.Line]) -> Any:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    def renderable(line: layout.Line) -> Any:
        overflow = "ellipsis" if line.is_row else "fold"
        # Of an empty text rich would write no line.
        text = Text(line.text or " ", line.style, no_wrap=line.is_row, overflow=overflow)
        return Padding(text, (0, 0, 0, line.indent), expand=False)

    return Group(*map(renderable, lines))


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bytes]]:
    """Yields what waits so many seconds, or until the window has another size; it returns what was typed."""
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

    def typed(seconds: float) -> bytes:
        ready, _, _ = select.select([keyboard, woken], [], [], seconds)
        if woken in ready:
            os.read(woken, 1 << 10)
        # No byte at all: the terminal is gone.
        return os.read(keyboard, 1 << 10) or b"q" if keyboard in ready else b""

    try:
        # Without a wait for output that a terminal does not take.
        tty.setcbreak(keyboard, termios.TCSANOW)
        yield typed
    finally:
        for number, handler in handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wake_before)
        termios.tcsetattr(keyboard, termios.TCSANOW, before)
        os.close(woken)
        os.close(wake)

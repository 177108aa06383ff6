"""The live view on a terminal of its own: what it shows, and how it leaves the terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import Any

import pytest
from frugal_alloc._command.top import layout, sockets


class Terminal:
    """A command on a terminal."""

    process: subprocess.Popen[bytes]

    def __init__(self, end: int, other_end: int) -> None:
        self._end = end
        self._other_end = other_end
        self.shown = b""
        self.modes_before = self.modes()

    def await_text(self, text: bytes) -> None:
        """Reads until it is shown."""
        while text not in self.shown:
            self.shown += os.read(self._end, 1 << 16)

    def press(self, key: bytes) -> None:
        os.write(self._end, key)

    def status(self) -> int:
        status = self.process.wait(timeout=60)
        os.set_blocking(self._end, False)
        with contextlib.suppress(OSError):
            while part := os.read(self._end, 1 << 16):
                self.shown += part
        return status

    def modes(self) -> list:
        return termios.tcgetattr(self._other_end)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._other_end, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))


@contextlib.contextmanager
def terminal(*options: str, before: str = "", **variables: str) -> Iterator[Terminal]:
    end, other_end = pty.openpty()
    # Other tests' programs publish, too.
    nobody = "from frugal_alloc._command.top import sockets\nsockets._names = list"
    code = f"{before}\n{nobody}\nfrom frugal_alloc._command import cli\ncli.main({['top', *options]!r})"
    view = Terminal(end, other_end)
    view.resize(80)
    environment = {**os.environ, "TERM": "xterm", **variables}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env=environment,
        start_new_session=True,
        # Ctrl-C is for the foreground of the terminal that is the session's.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        view.process = process
        try:
            yield view
        finally:
            process.kill()
    os.close(end)
    os.close(other_end)


WITHOUT_RICH = "import sys; sys.modules['rich.console'] = None"


@pytest.mark.parametrize("before", ["", WITHOUT_RICH], ids=["rich", "plain"])
@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"\x03", 130)], ids=["q", "ctrl-c"])
def test_key_ends_it_and_the_terminal_is_as_it_was(before: str, key: bytes, status: int) -> None:
    with terminal("--interval", "3600", before=before) as view:
        view.await_text(b"No process runs")
        view.press(key)
        assert view.status() == status
        assert view.modes() == view.modes_before
    if not before:
        assert view.shown.index(b"\x1b[?1049h") < view.shown.index(b"\x1b[?1049l")
        assert view.shown.rindex(b"\x1b[?25h") > view.shown.index(b"\x1b[?25l")
    assert b"Traceback" not in view.shown


def test_terminate_leaves_the_terminal_as_it_was() -> None:
    with terminal("--interval", "3600") as view:
        view.await_text(b"No process runs")
        view.process.terminate()
        assert view.status() == 128 + signal.SIGTERM
        assert view.modes() == view.modes_before
    assert b"\x1b[?1049l" in view.shown


def test_other_keys_and_new_sizes_do_not_end_it() -> None:
    with terminal("--interval", "3600") as view:
        view.await_text(b"No process runs")
        view.shown = b""
        view.press(b"x")
        view.await_text(b"No process runs")
        view.shown = b""
        view.resize(40)
        os.kill(view.process.pid, signal.SIGWINCH)
        view.await_text(b"No process runs")
        view.press(b"q")
        assert view.status() == 0


def test_dumb_terminals_get_text_without_steering() -> None:
    with terminal("--interval", "3600", TERM="dumb") as view:
        view.await_text(b"No process runs")
        view.press(b"q")
        assert view.status() == 0
    assert b"\x1b" not in view.shown


def test_without_a_process_there_is_one_line_and_no_error(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_names", list)
    outcome = command("top", "--once")
    assert (outcome.status, outcome.out, outcome.err) == (0, f"{layout.NOTHING}\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "0"], "--interval 0 is not possible: give 0.1 to 3600 seconds"),
        (["--interval", "nan"], "--interval nan is not possible"),
        (["--prometheus", "host"], "--prometheus host: give a port, such as 9401"),
        (["--prometheus", "99999"], "--prometheus 99999: give a port"),
        (["--prometheus", "9401", "--gpu", "1"], "--prometheus serves all: leave out --gpu"),
        (["--user", "nobody-of-this-name"], "--user nobody-of-this-name: there is no such user"),
        (["--prometheus", "9401", "--json"], "--prometheus goes on until it is stopped"),
        (["train.py"], "unrecognized arguments: train.py"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(command: Any, arguments: list[str], said: str) -> None:
    outcome = command("top", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"frugal-alloc top: {said}") and outcome.err.count("\n") == 1


def test_terminal_that_goes_away_ends_it() -> None:
    # Where nohup runs the tests, their programs would ignore it.
    unignored = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)"
    with terminal("--interval", "3600", before=unignored) as view:
        view.await_text(b"No process runs")
        view.process.send_signal(signal.SIGHUP)
        assert view.status() == -signal.SIGHUP

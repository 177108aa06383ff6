"""What the tests of bad input share: the command in this process, watched."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command import cli

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "reports"), str(TESTS / "cli")]

# Far above what any of these takes, far below waiting for ever.
MOST_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    def assert_refused(self, case: str) -> None:
        """One clear line, status 2, nothing on standard output."""
        assert self.status == 2, f"{case}: {self}"
        assert self.out == "", case
        assert self.err.count("\n") == 1, f"{case}: {self.err}"
        assert self.err.endswith("\n"), case
        assert len(self.err) < 3000, case
        assert all(one.isprintable() for one in self.err[:-1]), f"{case}: {self.err!r}"
        assert "Traceback" not in self.err, case


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: types.FrameType | None) -> None:
        raise AssertionError(f"it took more than {MOST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(MOST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Carries out a command line in this process, in bounded time."""

    def carry_out(*arguments: Any) -> Outcome:
        with _alarm(), pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return carry_out

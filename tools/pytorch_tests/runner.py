"""Runs tests in workers, several at a time, and says how each ended."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from named_tests import Test
from workplace import Workplace

RETRIED = ("failed", "crashed", "timed out")


@dataclasses.dataclass(frozen=True)
class Outcome:
    test: Test
    kind: str  # passed, failed, skipped, missing, crashed, timed out
    reason: str  # of another outcome than "passed": one line
    seconds: float
    output: str


class Runner:
    """Runs tests in workers, several at a time."""

    def __init__(self, worker: Path, workplace: Workplace, sources: dict[str, Path], jobs: int, limit: float) -> None:
        """Starts the program `worker` for tests, as many at a time as there are jobs."""
        self._worker = worker
        self._workplace = workplace
        self._sources = sources
        self._limit = limit
        self._jobs = jobs

    def run(self, tests: Sequence[Test], apart: bool, tell: Callable[[Outcome], None]) -> None:
        """Tells outcomes as they come.

        Tests of a file that need the same share a process, unless all are `apart`; those that fail there get their own.
        """
        groups: dict[object, list[Test]] = {}
        for test in tests:
            groups.setdefault(test if apart else (test.file, test.setting), []).append(test)
        lock = threading.Lock()

        def tell_alone(outcome: Outcome) -> None:
            with lock:
                tell(outcome)

        with concurrent.futures.ThreadPoolExecutor(self._jobs) as executor:
            try:
                running = [executor.submit(self._run_group, group, tell_alone) for group in groups.values()]
                for group in concurrent.futures.as_completed(running):
                    group.result()
            finally:
                executor.shutdown(cancel_futures=True)

    def _run_group(self, group: Sequence[Test], tell: Callable[[Outcome], None]) -> None:
        left, failed = list(group), []
        while left:
            for outcome in self._run_worker(tuple(left)):
                left.pop(0)
                if outcome.kind in RETRIED and len(group) > 1:
                    failed.append(outcome)
                else:
                    tell(outcome)
        for before in failed:
            [outcome] = self._run_worker((before.test,))
            if outcome.kind == "passed":
                outcome = dataclasses.replace(outcome, reason=f"alone; after others: {before.reason}")
            tell(outcome)

    def _run_worker(self, tests: Sequence[Test]) -> Iterator[Outcome]:
        """Outcomes of at least the first test; of all, unless the worker crashes or runs out of time."""
        if (source := self._sources.get(tests[0].file)) is None:
            yield from (Outcome(test, "missing", f"there is no {test.file}", 0.0, "") for test in tests)
            return
        reading, writing = os.pipe()
        command = [self._workplace.python, self._worker, str(writing), self._workplace.allocator, source]
        with tempfile.TemporaryFile() as output, os.fdopen(reading) as reports:
            worker = subprocess.Popen(
                [*command, *(test.name for test in tests)],
                env=self._workplace.environment(tests[0].setting),
                cwd=source.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
            )
            os.close(writing)
            ended, seen, broken = 0, 0, None
            began = time.monotonic()
            for line in self._lines(reports):
                if line is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(worker.pid, signal.SIGKILL)
                    broken = "timed out", f"not done after {self._limit:g} s"
                    break
                began = time.monotonic()
                report = json.loads(line)
                if "outcome" in report:
                    text, seen = _text_from(output, seen)
                    yield Outcome(tests[ended], report["outcome"], report["reason"], report["seconds"], text)
                    ended += 1
            status = worker.wait()
            if ended < len(tests):
                text = _text_from(output, seen)[0]
                kind, reason = broken or ("crashed", _crash(status, text))
                yield Outcome(tests[ended], kind, reason, time.monotonic() - began, text)

    def _lines(self, reports: IO[str]) -> Iterator[bytes | None]:
        """What the worker reports, and None at last if nothing is heard of it for too long."""
        rest = b""
        while select.select([reports], [], [], self._limit)[0]:
            part = os.read(reports.fileno(), 1 << 16)
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            yield from lines
        yield None


def _crash(status: int, text: str) -> str:
    """How a worker ended that had not reported all."""
    lines = [line for line in text.splitlines() if line.strip()]
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return f"{how}: {lines[-1] if lines else 'no output'}"


def _text_from(file: IO[bytes], offset: int) -> tuple[str, int]:
    """What has been written to a file from there on, and where that ends. The file's own place stays as it is."""
    data = os.pread(file.fileno(), os.fstat(file.fileno()).st_size - offset, offset)
    return data.decode(errors="replace"), offset + len(data)

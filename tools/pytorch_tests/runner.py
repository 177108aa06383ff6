"""Runs tests in workers, several at a time, and says how each ended."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from named_tests import Test
from workplace import Workplace

RETRIED = ("failed", "crashed", "timed out")


@dataclasses.dataclass(frozen=True)
class Outcome:
    test: Test
    kind: str  # passed, failed, skipped, missing, crashed, timed out, faulted
    reason: str  # of another outcome than "passed": one line
    seconds: float
    output: str
    runs: int = 0  # with a failing call
    faults: int = 0  # calls that failed in these


class Runner:
    """Runs tests in workers, several at a time."""

    def __init__(self, worker: Path, workplace: Workplace, sources: dict[str, Path], jobs: int, limit: float) -> None:
        """Starts the program `worker` for tests, as many at a time as there are jobs."""
        self._worker = worker
        self._workplace = workplace
        self._sources = sources
        self._limit = limit
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(jobs):
            self._slots.put(slot)
        self._executor = concurrent.futures.ThreadPoolExecutor(jobs)
        # Outcomes as they come, and what ended a group.
        self._events: queue.SimpleQueue[Outcome | GroupEnd] = queue.SimpleQueue()

    def run(self, groups: Sequence[Sequence[Test]]) -> Iterator[Outcome]:
        """The outcomes as they come. Tests of a group share a process; those that fail there get one of their own."""
        for test in (test for group in groups for test in group if test.file not in self._sources):
            yield Outcome(test, "missing", f"there is no {test.file}", 0.0, "")
        groups = [group for group in groups if group[0].file in self._sources]
        shared = {test for group in groups if len(group) > 1 for test in group}
        before: dict[Test, Outcome] = {}
        running = 0
        try:
            for group in groups:
                self._executor.submit(self._run_group, group)
                running += 1
            while running > 0:
                event = self._events.get()
                if isinstance(event, GroupEnd):
                    running -= 1
                    if event.error is not None:
                        raise event.error
                elif event.kind in RETRIED and event.test in shared and event.test not in before:
                    before[event.test] = event
                    self._executor.submit(self._run_group, [event.test])
                    running += 1
                elif event.kind == "passed" and event.test in before:
                    yield dataclasses.replace(event, reason=f"alone; after others: {before[event.test].reason}")
                else:
                    yield event
        finally:
            self._executor.shutdown(cancel_futures=True)

    def _run_group(self, group: Sequence[Test]) -> None:
        slot = self._slots.get()
        error = None
        try:
            left = list(group)
            while left:
                for outcome in self._run_worker(tuple(left), slot):
                    left.pop(0)
                    self._events.put(outcome)
        except BaseException as raised:
            error = raised
        finally:
            self._slots.put(slot)
            self._events.put(GroupEnd(error))

    def _run_worker(self, tests: Sequence[Test], slot: int) -> Iterator[Outcome]:
        """Outcomes of at least the first test; of all, unless the worker crashes or runs out of time."""
        source = self._sources[tests[0].file]
        reading, writing = os.pipe()
        command = [self._workplace.python, self._worker, str(writing), self._workplace.allocator, source]
        with tempfile.TemporaryFile() as output, os.fdopen(reading) as reports:
            worker = subprocess.Popen(
                [*command, *(test.name for test in tests)],
                env=self._workplace.environment(tests[0].setting, slot),
                cwd=source.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
            )
            os.close(writing)
            watch = Watch(worker, self._limit)
            ended, seen, plan = 0, 0, None
            for line in reports:
                watch.restart()
                report = json.loads(line)
                plan = report.get("plan")
                if "outcome" in report:
                    text, seen = _text_from(output, seen)
                    known = {name: report[name] for name in ("runs", "faults") if name in report}
                    yield Outcome(tests[ended], report["outcome"], report["reason"], report["seconds"], text, **known)
                    ended += 1
            status = worker.wait()
            watch.stop()
            if ended < len(tests):
                broken = self._broken(tests[ended], watch, status, _text_from(output, seen)[0])
                if plan is not None:  # run alone it would meet another plan
                    broken = dataclasses.replace(broken, kind="faulted", reason=f"{plan}: {broken.reason}")
                yield broken

    def _broken(self, test: Test, watch: Watch, status: int, text: str) -> Outcome:
        if watch.expired:
            return Outcome(test, "timed out", f"not done after {self._limit:g} s", watch.seconds(), text)
        lines = [line for line in text.splitlines() if line.strip()]
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return Outcome(test, "crashed", f"{how}: {lines[-1] if lines else 'no output'}", watch.seconds(), text)


@dataclasses.dataclass(frozen=True)
class GroupEnd:
    error: BaseException | None


def _text_from(file: IO[bytes], offset: int) -> tuple[str, int]:
    """What has been written to a file from there on, and where that ends. The file's own place stays as it is."""
    data = os.pread(file.fileno(), os.fstat(file.fileno()).st_size - offset, offset)
    return data.decode(errors="replace"), offset + len(data)


class Watch:
    """Ends a process, and all that it started, when nothing has been heard of it for too long."""

    def __init__(self, process: subprocess.Popen, limit: float) -> None:
        self.expired = False
        self._process = process
        self._limit = limit
        self._start = time.monotonic()
        self._timer: threading.Timer | None = None
        self.restart()

    def restart(self) -> None:
        self.stop()
        self._start = time.monotonic()
        self._timer = threading.Timer(self._limit, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def _expire(self) -> None:
        self.expired = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def grouped(tests: Sequence[Test], apart: bool) -> list[list[Test]]:
    """Tests by the process they run in: one each, or all of a file that need the same."""
    if apart:
        return [[test] for test in tests]
    groups: dict[tuple, list[Test]] = {}
    for test in tests:
        groups.setdefault((test.file, test.setting), []).append(test)
    return list(groups.values())

"""Memory that is mapped at two addresses is one memory, for work that is in order.

Work writes through one address and reads through the other, in turn, by kernels, fills and copies, ordered by a
stream, an event, a graph or a programmatic dependent launch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from .costs import now
from .driver import ADDRESS, COUNT, KERNELS, PAGE, WORD, Gpu, opened_gpu
from .probe import SKIPPED, VALUES, Report

_ROUNDS, _MOVES = 100_000, 2_000
_PATTERNS = 64
_WORDS = 64 << 10
_BYTES = 4 * _WORDS
_GRID = (64, 256)
_HOPPER = (9, 0)
#: Who writes and who reads.
_WAYS = (("kernel", "kernel"), ("fill", "kernel"), ("copy", "kernel"), ("kernel", "copy"))
_EARLY = "dependent kernel"


class _Memory:
    """One range of memory at two addresses, and what works on it."""

    def __init__(self, gpu: Gpu, stack: contextlib.ExitStack) -> None:
        self.gpu, enter = gpu, stack.enter_context
        module = enter(gpu.module(KERNELS / "aliasing.cu"))
        made = enter(gpu.handles(1, PAGE))
        self.addresses = enter(gpu.mapped(made, PAGE)), enter(gpu.mapped(made, PAGE))
        # Each pattern in a place of its own, for copies from there; and where copies out go.
        self._patterns, self._scratch = enter(gpu.segment(_PATTERNS * _BYTES)), enter(gpu.segment(_BYTES))
        self._wrong = enter(gpu.segment(4))
        types = ADDRESS, COUNT, WORD
        self._fill, self._fill_early = (gpu.kernel(module, name, *_GRID, *types) for name in ("fill", "fill_early"))
        self._compare, self._compare_early = (
            gpu.kernel(module, name, *_GRID, *types, ADDRESS) for name in ("compare", "compare_early")
        )
        for value in range(_PATTERNS):
            gpu.call("cuMemsetD32Async", self._patterns + value * _BYTES, value, _WORDS, 0)
        gpu.call("cuMemsetD32Async", self._wrong, 0, 1, 0)
        gpu.call("cuStreamSynchronize", 0)

    def write(self, by: str, address: int, value: int, stream: Any) -> None:
        """A pattern: a value below _PATTERNS, in all words."""
        if by == "fill":
            self.gpu.call("cuMemsetD32Async", address, value, _WORDS, stream)
        elif by == "copy":
            self.gpu.call("cuMemcpyDtoDAsync", address, self._patterns + value * _BYTES, _BYTES, stream)
        elif by == _EARLY:
            self.gpu.launch_dependent(self._fill_early, stream, address, _WORDS, value)
        else:
            self.gpu.launch(self._fill, stream, address, _WORDS, value)

    def read(self, by: str, address: int, value: int, stream: Any) -> None:
        """Counts what is not this value."""
        if by == _EARLY:
            self.gpu.launch_dependent(self._compare_early, stream, address, _WORDS, value, self._wrong)
            return
        if by == "copy":
            self.gpu.call("cuMemcpyDtoDAsync", self._scratch, address, _BYTES, stream)
            address = self._scratch
        self.gpu.launch(self._compare, stream, address, _WORDS, value, self._wrong)

    def wrong(self) -> int:
        """How many words were wrong, when all streams have been waited for."""
        return self.gpu.read(self._wrong, 1)[0]


@contextlib.contextmanager
def _memory(gpu: Gpu) -> Iterator[_Memory]:
    with contextlib.ExitStack() as stack:
        yield _Memory(gpu, stack)


def run(report: Report) -> None:
    with opened_gpu() as gpu:
        name = "control: words that are wrong are seen"
        with report.part(name), _memory(gpu) as memory, gpu.stream() as stream:
            memory.write("kernel", memory.addresses[0], 1, stream)
            memory.read("kernel", memory.addresses[1], 2, stream)
            gpu.call("cuStreamSynchronize", stream)
            wrong = memory.wrong()
            report.check(name, wrong == _WORDS, f"{wrong} of {_WORDS} words that differ", VALUES)
        cases = [
            (f"{way[0]} writes, {way[1]} reads, ordered by {order}", carry_out, way)
            for order, carry_out in {"stream": _in_stream, "event": _by_event, "graph": _in_graph}.items()
            for way in _WAYS
        ]
        early = "kernel writes, kernel reads, by programmatic dependent launch"
        if gpu.compute_capability < _HOPPER:
            report.say(early, SKIPPED, "this GPU has none: it came with Hopper")
        else:
            cases.append((early, _in_stream, (_EARLY, _EARLY)))
        moved = "a handle that moves keeps its bytes, and its old address can go beside running work"
        cases.append((moved, _moving, ("", "")))
        for number, (name, carry_out, way) in enumerate(cases):
            with report.part(name), _memory(gpu) as memory:
                seconds = report.seconds_left() / (len(cases) - number)
                done = carry_out(memory, *way, _rounds(report, seconds))
                wrong = memory.wrong()
                report.check(name, wrong == 0, f"{wrong} of {done * _WORDS} words wrong in {done} rounds", VALUES)


def _rounds(report: Report, seconds: float) -> Iterator[range]:
    """Rounds by patterns, until there were enough, or no time is left."""
    end = now() + int(max(0.0, seconds) * 1e9)
    for _ in range(0, report.rounds(_ROUNDS) if not report.simulated else 2, _PATTERNS):
        yield range(_PATTERNS)
        if now() > end:
            return


def _in_stream(memory: _Memory, writer: str, reader: str, rounds: Iterable[range]) -> int:
    """How many rounds there were, as of those below."""
    done = 0
    with memory.gpu.stream() as stream:
        for several in rounds:
            for value in several:
                memory.write(writer, memory.addresses[value % 2], value, stream)
                memory.read(reader, memory.addresses[1 - value % 2], value, stream)
            done += len(several)
            memory.gpu.call("cuStreamSynchronize", stream)
    return done


def _by_event(memory: _Memory, writer: str, reader: str, rounds: Iterable[range]) -> int:
    """One stream writes, another one reads; each waits for the other by an event."""
    gpu, done = memory.gpu, 0
    with gpu.stream() as writing, gpu.stream() as reading, gpu.event() as written, gpu.event() as was_read:
        for several in rounds:
            for value in several:
                memory.write(writer, memory.addresses[value % 2], value, writing)
                gpu.call("cuEventRecord", written, writing)
                gpu.call("cuStreamWaitEvent", reading, written, 0)
                memory.read(reader, memory.addresses[1 - value % 2], value, reading)
                gpu.call("cuEventRecord", was_read, reading)
                gpu.call("cuStreamWaitEvent", writing, was_read, 0)
            done += len(several)
            gpu.call("cuStreamSynchronize", reading)
            gpu.call("cuStreamSynchronize", writing)
    return done


def _in_graph(memory: _Memory, writer: str, reader: str, rounds: Iterable[range]) -> int:
    """All patterns in one graph, launched again and again."""
    gpu, done = memory.gpu, 0
    with gpu.stream() as stream, contextlib.ExitStack() as stack:
        # What a first launch loads must not be loaded within the capture.
        memory.write(writer, memory.addresses[0], 0, stream)
        memory.read(reader, memory.addresses[1], 0, stream)
        gpu.call("cuStreamBeginCapture", stream, gpu.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        for value in range(_PATTERNS):
            memory.write(writer, memory.addresses[value % 2], value, stream)
            memory.read(reader, memory.addresses[1 - value % 2], value, stream)
        captured = stack.enter_context(gpu.lent(gpu.call("cuStreamEndCapture", stream), "cuGraphDestroy"))
        graph = stack.enter_context(gpu.lent(gpu.call("cuGraphInstantiate", captured, 0), "cuGraphExecDestroy"))
        for several in rounds:
            gpu.call("cuGraphLaunch", graph, stream)
            done += len(several)
        gpu.call("cuStreamSynchronize", stream)
    return done


def _moving(memory: _Memory, _: str, __: str, rounds: Iterable[range]) -> int:
    """A handle gets a new address while another stream works on other memory; the old address goes when the handle's
    own work has passed, as frugal_alloc does it. What was written through the old one is read through the new one."""
    gpu, moved = memory.gpu, 0
    with gpu.stream() as stream, gpu.stream() as other, gpu.handles(1, PAGE) as made, gpu.reserved(2 * PAGE) as start:
        gpu.map_handles(start, made, PAGE)
        for value in (value for several in rounds for value in several):
            if moved == _MOVES:
                break
            old, new = start + moved % 2 * PAGE, start + (moved + 1) % 2 * PAGE
            memory.write("kernel", memory.addresses[0], value, other)
            memory.write("kernel", old, value, stream)
            gpu.map_handles(new, made, PAGE)
            memory.read("kernel", new, value, stream)
            gpu.call("cuStreamSynchronize", stream)
            # The other stream has work all the while.
            memory.read("kernel", memory.addresses[1], value, other)
            gpu.call("cuMemUnmap", old, PAGE)
            moved += 1
        gpu.call("cuMemUnmap", start + moved % 2 * PAGE, PAGE)
        gpu.call("cuStreamSynchronize", other)
    return moved

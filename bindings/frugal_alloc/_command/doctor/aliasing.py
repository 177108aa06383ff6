"""P2: memory that is mapped at two addresses is one memory, for work that is in order.

Work writes through one address and reads through the other, in turn, by kernels, fills and copies, ordered by a
stream, an event, a graph or a programmatic dependent launch. One grid that does both is the control: CUDA promises
nothing for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from ctypes import byref, c_uint, c_uint64, c_void_p

from . import kernels
from .costs import now
from .step import Needs, StepReport
from .virtual_memory import PAGE, Gpu, opened_gpu

_ROUNDS = 100_000
_PATTERNS = 64
_WORDS = 64 << 10
_BYTES = 4 * _WORDS
_BLOCKS, _THREADS = 64, 256
_HOPPER = (9, 0)
_MOVES = 2_000
#: Who writes and who reads.
_WAYS = (("kernel", "kernel"), ("fill", "kernel"), ("copy", "kernel"), ("kernel", "copy"))
_EARLY = "dependent kernel"


@dataclasses.dataclass
class _Memory:
    """One range of memory at two addresses, and what works on it."""

    gpu: Gpu
    addresses: tuple[int, int]
    #: Each pattern in a place of its own, for copies from there; and where copies out go.
    patterns: int
    scratch: int
    wrong: int
    module: kernels.Module

    def __post_init__(self) -> None:
        wrong = (c_uint64(self.wrong),)
        self._kernels = {
            name: self.module.kernel(name, _BLOCKS, _THREADS, c_uint64(0), c_uint64(_WORDS), c_uint(0), *more)
            for name, more in {"fill": (), "fill_early": (), "compare": wrong, "compare_early": wrong}.items()
        }

    def _kernel(self, name: str, address: int, value: int) -> kernels.Kernel:
        kernel = self._kernels[name]
        kernel.set(0, address)
        kernel.set(2, value)
        return kernel

    def write(self, by: str, address: int, value: int, stream: int) -> None:
        """A pattern: a value below _PATTERNS, in all words."""
        if by == "fill":
            self.gpu.call("cuMemsetD32Async", address, value, _WORDS, stream)
        elif by == "copy":
            self.gpu.call("cuMemcpyDtoDAsync_v2", address, self.patterns + value * _BYTES, _BYTES, stream)
        elif by == _EARLY:
            self._kernel("fill_early", address, value).launch_dependent(stream)
        else:
            self._kernel("fill", address, value).launch(stream)

    def read(self, by: str, address: int, value: int, stream: int) -> None:
        """Counts what is not this value."""
        if by == _EARLY:
            self._kernel("compare_early", address, value).launch_dependent(stream)
            return
        if by == "copy":
            self.gpu.call("cuMemcpyDtoDAsync_v2", self.scratch, address, _BYTES, stream)
            address = self.scratch
        self._kernel("compare", address, value).launch(stream)

    def take_wrong(self) -> int:
        """How many words were wrong since the last time; waits for all work."""
        self.gpu.call("cuCtxSynchronize")
        (found,) = self.gpu.read(self.wrong, 1)
        self.gpu.call("cuMemsetD32Async", self.wrong, 0, 1, None)
        self.gpu.call("cuCtxSynchronize")
        return found


@contextlib.contextmanager
def _memory(gpu: Gpu) -> Iterator[_Memory]:
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        module = enter(kernels.loaded(gpu, "aliasing"))
        made = enter(gpu.handles(1, PAGE))
        addresses = enter(gpu.mapped(made, PAGE)), enter(gpu.mapped(made, PAGE))
        patterns, scratch = enter(gpu.segment(_PATTERNS * _BYTES)), enter(gpu.segment(_BYTES))
        wrong = enter(gpu.segment(4))
        for value in range(_PATTERNS):
            gpu.call("cuMemsetD32Async", patterns + value * _BYTES, value, _WORDS, None)
        gpu.call("cuMemsetD32Async", wrong, 0, 1, None)
        gpu.call("cuCtxSynchronize")
        yield _Memory(gpu, addresses, patterns, scratch, wrong, module)


def run(report: StepReport) -> None:
    with opened_gpu() as gpu:
        with report.part("control: words that are wrong are seen"):
            _wrong_on_purpose(gpu, report)
        _pairs(gpu, report)
        with report.part("a handle that moves"):
            _moving(gpu, report)
        with report.part("control: one resident grid"):
            _resident(gpu, report)


def _wrong_on_purpose(gpu: Gpu, report: StepReport) -> None:
    with _memory(gpu) as memory, gpu.stream() as stream:
        memory.write("kernel", memory.addresses[0], 1, stream)
        memory.read("kernel", memory.addresses[1], 2, stream)
        wrong = memory.take_wrong()
    name = "control: words that are wrong are seen"
    report.check(name, wrong == _WORDS, f"{wrong} of {_WORDS} words that differ", Needs.VALUES)


def _pairs(gpu: Gpu, report: StepReport) -> None:
    orders = {"stream": _in_stream, "event": _by_event, "graph": _in_graph}
    cases = [
        (f"{way[0]} writes, {way[1]} reads, ordered by {order}", carry_out, way)
        for order, carry_out in orders.items()
        for way in _WAYS
    ]
    early = "kernel writes, kernel reads, by programmatic dependent launch"
    if gpu.compute_capability() < _HOPPER:
        report.skip(early, "this GPU has none: it came with Hopper")
    else:
        cases.append((early, _in_stream, (_EARLY, _EARLY)))
    for number, (name, carry_out, (writer, reader)) in enumerate(cases):
        with report.part(name), _memory(gpu) as memory:
            # Two more are to come.
            seconds = report.seconds_left() / (len(cases) - number + 2)
            done = carry_out(memory, writer, reader, _rounds(report, seconds))
            _say(memory, report, name, done)


def _rounds(report: StepReport, seconds: float) -> Iterator[range]:
    """Rounds by patterns, until there were enough, or no time is left."""
    end = now() + int(max(0.0, seconds) * 1e9)
    for _ in range(0, report.rounds(_ROUNDS, 2), _PATTERNS):
        yield range(_PATTERNS)
        if now() > end:
            return


def _say(memory: _Memory, report: StepReport, name: str, rounds: int) -> None:
    wrong = memory.take_wrong()
    report.check(name, wrong == 0, f"{wrong} of {rounds * _WORDS} words wrong in {rounds} rounds", Needs.VALUES)


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
    return done


def _in_graph(memory: _Memory, writer: str, reader: str, rounds: Iterable[range]) -> int:
    """All patterns in one graph, launched again and again."""
    gpu, done = memory.gpu, 0
    with gpu.stream() as stream, contextlib.ExitStack() as stack:
        # What a first launch loads must not be loaded within the capture.
        memory.write(writer, memory.addresses[0], 0, stream)
        memory.read(reader, memory.addresses[1], 0, stream)
        gpu.call("cuStreamBeginCapture_v2", stream, 1)
        for value in range(_PATTERNS):
            memory.write(writer, memory.addresses[value % 2], value, stream)
            memory.read(reader, memory.addresses[1 - value % 2], value, stream)
        captured = c_void_p()
        gpu.call("cuStreamEndCapture", stream, byref(captured))
        stack.callback(gpu.undo, "cuGraphDestroy", captured)
        graph = gpu.made("cuGraphInstantiateWithFlags", captured, 0)
        stack.callback(gpu.undo, "cuGraphExecDestroy", graph)
        for several in rounds:
            gpu.call("cuGraphLaunch", graph, stream)
            done += len(several)
        gpu.call("cuStreamSynchronize", stream)
    return done


def _moving(gpu: Gpu, report: StepReport) -> None:
    """A handle gets a new address while another stream works on other memory; the old address goes when the handle's
    own work has passed, as frugal_alloc does it. What was written through the old one is read through the new one."""
    rounds = report.rounds(_MOVES, 4)
    name = "a handle that moves keeps its bytes, and its old address can go beside running work"
    with _memory(gpu) as memory, gpu.stream() as stream, gpu.stream() as other, gpu.handles(1, PAGE) as made:
        with gpu.reserved(2 * PAGE) as start:
            gpu.map_handles(start, made, PAGE)
            for moved in range(rounds):
                old, new = start + moved % 2 * PAGE, start + (moved + 1) % 2 * PAGE
                memory.write("kernel", memory.addresses[0], moved, other)
                memory.write("kernel", old, moved, stream)
                gpu.map_handles(new, made, PAGE)
                memory.read("kernel", new, moved, stream)
                gpu.call("cuStreamSynchronize", stream)
                # The other stream has work all the while.
                memory.read("kernel", memory.addresses[1], moved, other)
                gpu.call("cuMemUnmap", old, PAGE)
            gpu.call("cuMemUnmap", start + rounds % 2 * PAGE, PAGE)
        _say(memory, report, name, rounds)


def _resident(gpu: Gpu, report: StepReport) -> None:
    rounds = report.rounds(1000, 4)
    with _memory(gpu) as memory:
        there, here = memory.addresses
        grid = memory.module.kernel(
            "resident", _BLOCKS, _THREADS, c_uint64(there), c_uint64(here), c_uint(rounds), c_uint64(memory.wrong)
        )
        grid.launch(0)
        stale = memory.take_wrong()
    reads = rounds * _BLOCKS * _THREADS
    report.figure("control: older words read within one grid", stale, f"of {reads}", "CUDA promises nothing for it")

"""Programs with several streams, each with its mistake: ``streams.py [--wrong]`` on the simulated GPU.

Without ``--wrong`` they order their work as PyTorch asks them to, so that whatever is unordered is the allocator's
doing.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from collections.abc import Callable

import frugal_alloc
import torch

MIB = 1 << 20
# Floats in a MiB.
MIB_FLOATS = MIB // 4
# Of the 188 MiB that are free on a GPU of 700 MiB; 69 are in workspaces and the pool of the graph.
MOST_HELD = 96 * MIB


class Clock:
    """The simulated time, which moves when it is told to."""

    def __init__(self) -> None:
        self._gpu = ctypes.CDLL("libcudart.so.13")
        self._gpu.frugal_sim_set_clock.argtypes = [ctypes.c_uint64]
        self._gpu.frugal_sim_set_stream_busy_until.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.now = 0
        self.advance(0)

    def advance(self, ns: int) -> None:
        self.now += ns
        self._gpu.frugal_sim_set_clock(self.now)

    def keep_busy(self, stream: torch.cuda.Stream, ns: int) -> None:
        """What the stream has been told so far takes that long."""
        self._gpu.frugal_sim_set_stream_busy_until(stream.cuda_stream, self.now + ns)


def new_memory(mib: int) -> torch.Tensor:
    return torch.ones(mib * MIB_FLOATS, device="cuda")


def prefetch(clock: Clock, wrong: bool) -> None:
    """Batches are copied on a stream of their own. Wrong: the model does not wait for the copy."""
    copies = torch.cuda.Stream()
    for _ in range(8):
        host = torch.ones(MIB_FLOATS).pin_memory()
        with torch.cuda.stream(copies):
            batch = host.to("cuda", non_blocking=True)
        clock.keep_busy(copies, 1000)
        if not wrong:
            torch.cuda.current_stream().wait_stream(copies)
        batch.record_stream(torch.cuda.current_stream())
        (batch * 2).sum()
        clock.keep_busy(torch.cuda.current_stream(), 2000)
        clock.advance(500)


def lend(clock: Clock, wrong: bool) -> None:
    """A side stream reads what the main one made and lets go. Wrong: without record_stream."""
    side = torch.cuda.Stream()
    for _ in range(8):
        made = new_memory(8)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            made.sum()
        clock.keep_busy(side, 1000)
        if not wrong:
            made.record_stream(side)
        del made
        new_memory(8)
        clock.advance(300)


def reduce_gradients(clock: Clock, wrong: bool) -> None:
    """Gradients are reduced on a stream of their own, as they come. Wrong: the optimizer does not wait for it."""
    reducing = torch.cuda.Stream()
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def reduce(parameter: torch.nn.Parameter) -> None:
        reducing.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reducing):
            parameter.grad.mul_(0.5)
            parameter.grad.record_stream(reducing)
        clock.keep_busy(reducing, 500)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    for _ in range(4):
        model(torch.ones(256, 512, device="cuda")).sum().backward()
        if not wrong:
            torch.cuda.current_stream().wait_stream(reducing)
        optimizer.step()
        optimizer.zero_grad()
        clock.advance(200)


def replay_graph(clock: Clock, wrong: bool) -> None:
    """A graph with two branches is replayed. Wrong: its result is read on a stream that does not wait for it."""
    static = new_memory(4)
    origin, branch, reader = (torch.cuda.Stream() for _ in range(3))
    graph = torch.cuda.CUDAGraph()
    origin.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=origin):
        branch.wait_stream(origin)
        with torch.cuda.stream(branch):
            other = static * 2
        one = static + 1
        torch.cuda.current_stream().wait_stream(branch)
        result = one + other
    for _ in range(4):
        graph.replay()
        clock.keep_busy(torch.cuda.current_stream(), 1000)
        if not wrong:
            reader.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reader):
            result.sum()
        torch.cuda.current_stream().wait_stream(reader)
        new_memory(4)
        clock.advance(400)


def pressure(clock: Clock, wrong: bool) -> None:
    """Four streams share a GPU that is nearly full. Wrong: one of them forgets record_stream now and then."""
    draw = random.Random(1)
    streams = [torch.cuda.Stream() for _ in range(4)]
    sums = {}
    for stream in streams:
        with torch.cuda.stream(stream):
            # One for each, as there may be no room for another later.
            sums[stream] = torch.empty((), device="cuda")
    held: list[tuple[torch.Tensor, torch.cuda.Stream]] = []
    for step in range(600):
        owner = draw.choice(streams)
        size = 2 * draw.randint(1, 10)
        while sum(tensor.nbytes for tensor, _ in held) + size * MIB > MOST_HELD:
            held.pop(draw.randrange(len(held)))
        with torch.cuda.stream(owner):
            held.append((new_memory(size), owner))
        clock.keep_busy(owner, draw.randint(0, 2000))
        if held and draw.random() < 0.5:
            tensor, maker = held[draw.randrange(len(held))]
            user = draw.choice(streams)
            user.wait_stream(maker)
            with torch.cuda.stream(user):
                torch.sum(tensor, 0, out=sums[user])
            clock.keep_busy(user, draw.randint(0, 2000))
            if not (wrong and step % 7 == 0):
                tensor.record_stream(user)
            del tensor
        if step % 200 == 199:
            torch.cuda.empty_cache()
        clock.advance(draw.randint(0, 600))
    statistics = frugal_alloc.memory_stats()
    print(f"pressure: {statistics['stitches']} stitches", file=sys.stderr)


PROGRAMS: dict[str, Callable[[Clock, bool], None]] = {
    program.__name__: program for program in (prefetch, lend, reduce_gradients, replay_graph, pressure)
}

if __name__ == "__main__":
    frugal_alloc.enable()
    gpu = ctypes.CDLL("libcudart.so.13")
    gpu.frugal_sim_order_accesses.restype = gpu.frugal_sim_order_violations.restype = ctypes.c_uint64
    clock = Clock()
    found = {}
    for name, program in PROGRAMS.items():
        before = gpu.frugal_sim_order_accesses(), gpu.frugal_sim_order_violations()
        program(clock, "--wrong" in sys.argv)
        torch.cuda.synchronize()
        after = gpu.frugal_sim_order_accesses(), gpu.frugal_sim_order_violations()
        found[name] = {"accesses": after[0] - before[0], "violations": after[1] - before[1]}
    print(json.dumps(found))

"""Uses memory as PyTorch programs do while driver calls fail: run as a program on the simulated GPU.

    frugal-alloc simulate --memory 1GiB -- python faulted_memory.py CALLS SEED

For each kind of call that can fail and each way to fail, CALLS of the calls that the work makes fail in turn, drawn
from SEED. Whatever fails, the program sees ``torch.OutOfMemoryError`` or nothing, the figures are right, and all memory
can be had again. What it saw is printed as JSON behind "RESULTS".
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import warnings
from collections import Counter

import frugal_alloc
import torch
from failing_gpu import ERRORS, KINDS

MIB = 1 << 20

gpu = ctypes.CDLL("libcudart.so.13")
gpu.frugal_sim_calls.restype = gpu.frugal_sim_faults.restype = gpu.frugal_sim_memory_used.restype = ctypes.c_uint64
gpu.frugal_sim_set_stream_busy_until.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
gpu.frugal_sim_set_clock.argtypes = [ctypes.c_uint64]


def must(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


class Work:
    """The same calls in every iteration. No kernel is launched: what its failure would raise is PyTorch's affair."""

    def __init__(self) -> None:
        self.side = torch.cuda.Stream()
        self.now = 0
        self.out_of_memory = 0
        self.operations = 0
        self.pool = torch.cuda.MemPool()
        self.graph = torch.cuda.CUDAGraph()
        static = torch.zeros(MIB, device="cuda")
        with torch.cuda.graph(self.graph):
            self.result = static + 1
        self.static = static
        self.lasting = torch.cuda.memory_allocated()

    def iterate(self) -> None:
        held: list[torch.Tensor] = []
        for number in range(24):
            size = (300 << 10, 3 * MIB, 21 * MIB, 64 * MIB)[number % 4] + number * 4096
            self._allocate(held, size, on_side=number % 3 == 2)
            if number % 3 == 1 and held:
                held[0].record_stream(self.side)
                gpu.frugal_sim_set_stream_busy_until(self.side.cuda_stream, self.now + 5)
            if number % 2 and held:
                held.pop(0)
            if number in (11, 19):
                torch.cuda.empty_cache()
            self.now += 1
            gpu.frugal_sim_set_clock(self.now)
        sizes = sum((tensor.untyped_storage().nbytes() + 511) // 512 * 512 for tensor in held)
        must(torch.cuda.memory_allocated() - self.lasting == sizes, "the bytes allocated are those of the tensors")

    def _allocate(self, held: list[torch.Tensor], size: int, on_side: bool) -> None:
        self.operations += 1
        with torch.cuda.stream(self.side if on_side else torch.cuda.current_stream()):
            try:
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            except torch.OutOfMemoryError:
                self.out_of_memory += 1

    def give_everything_back(self) -> None:
        self.now += 1000
        gpu.frugal_sim_set_clock(self.now)
        torch.cuda.empty_cache()

    def have_everything(self) -> None:
        """One tensor of nearly all the memory that there is."""
        free, _ = torch.cuda.mem_get_info()
        whole = torch.empty(free - 4 * MIB, dtype=torch.uint8, device="cuda")
        del whole
        torch.cuda.empty_cache()


def main() -> None:
    calls, seed = int(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")  # empty_cache() warns of what failed
    frugal_alloc.enable()
    work = Work()
    work.iterate()
    work.give_everything_back()
    used = gpu.frugal_sim_memory_used(0)
    seen: Counter[str] = Counter()
    faults = iterations = 0
    for kind in KINDS:
        before = gpu.frugal_sim_calls(kind.encode())
        work.iterate()
        made = gpu.frugal_sim_calls(kind.encode()) - before
        for error in ERRORS:
            drawn = random.Random(f"{seed} {kind} {error}").sample(range(1, made + 1), min(calls, made))
            for call in drawn:
                plan = f"{kind}@{call}={error}"
                must(gpu.frugal_sim_set_faults(plan.encode()) == 0, plan)
                try:
                    work.iterate()
                except Exception as exception:
                    seen[f"{plan}: {type(exception).__name__}: {str(exception).splitlines()[0]}"] += 1
                faults += gpu.frugal_sim_faults()
                iterations += 1
                gpu.frugal_sim_set_faults(b"")
                work.give_everything_back()
                now_used = gpu.frugal_sim_memory_used(0)
                if now_used != used:
                    seen[f"{plan}: {now_used - used} bytes are lost"] += 1
        work.have_everything()
    work.graph.replay()
    torch.cuda.synchronize()
    figures = {
        "faults": faults,
        "iterations": iterations,
        "operations": work.operations,
        "out_of_memory": work.out_of_memory,
    }
    print("RESULTS" + json.dumps(figures | {"seen": dict(seen)}))


if __name__ == "__main__":
    main()

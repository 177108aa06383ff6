"""Random operations on PyTorch with frugal_alloc beside a naive model: who owns which bytes, and what is in them.

Runs on the simulated GPU, whose memory this process can read and write: each block is stamped at its start, its end and
once in every page, and must bear its stamps until it is freed, so that memory that is handed out twice is noticed even
if it is seen at two addresses. Threads take turns as the program draws them, so that a seed is always the same run.

After each allocation: no byte belongs to two tensors. When memory is out: whole pages that nobody uses would not have
done. Now and then, and at the end: PyTorch's counts are the model's; when all is freed nothing is held.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import ctypes
import gc
import random
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import frugal_alloc
import torch
from frugal_alloc import _native

PAGE = 2 << 20
GRAIN = 512
GPUS = 2
THREADS = 3
STREAMS = 3
MOST_LIVE = 120


class Block:
    """A tensor with its stamps."""

    def __init__(self, name: int, tensor: torch.Tensor) -> None:
        self.name, self.tensor = name, tensor
        self.gpu = tensor.device.index
        self.address, self.size = tensor.data_ptr(), tensor.numel()
        self.stamp = name.to_bytes(8, "little")
        for place in self._places():
            ctypes.memmove(place, self.stamp, 8)

    def check(self) -> None:
        for place in self._places():
            assert ctypes.string_at(place, 8) == self.stamp, f"block {self.name} lost its bytes at {place:#x}"

    def _places(self) -> list[int]:
        last = self.address + self.size - 8
        return [*range(self.address, last, PAGE), last]


class LiveBlocks:
    """The blocks in use, none of which may reach into another."""

    def __init__(self) -> None:
        self._by_name: dict[int, Block] = {}
        self._ranges: list[list[tuple[int, int]]] = [[] for _ in range(GPUS)]  # address and end, sorted
        self._names = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def names(self) -> list[int]:
        return sorted(self._by_name)

    def on(self, gpu: int) -> int:
        return sum(block.gpu == gpu for block in self._by_name.values())

    def any(self, drawn: random.Random) -> Block | None:
        return drawn.choice(list(self._by_name.values())) if self._by_name else None

    def enter(self, tensor: torch.Tensor) -> None:
        self._names += 1
        start, end = tensor.data_ptr(), tensor.data_ptr() + tensor.numel()
        ranges = self._ranges[tensor.device.index]
        at = bisect.bisect(ranges, (start, end))
        assert start % GRAIN == 0, f"{start:#x} is not aligned"
        assert at == 0 or ranges[at - 1][1] <= start, f"{start:#x} lies in a block in use"
        assert at == len(ranges) or end <= ranges[at][0], f"{start:#x} reaches into a block in use"
        ranges.insert(at, (start, end))
        self._by_name[self._names] = Block(self._names, tensor)

    def drop(self, name: int) -> None:
        block = self._by_name.pop(name)
        block.check()
        self._forget_range(block)

    def follow_move(self, block: Block) -> None:
        """Its bytes have moved to another address."""
        self._forget_range(block)
        block.address = block.tensor.data_ptr()
        bisect.insort(self._ranges[block.gpu], (block.address, block.address + block.size))
        block.check()

    def _forget_range(self, block: Block) -> None:
        ranges = self._ranges[block.gpu]
        del ranges[bisect.bisect_left(ranges, (block.address, 0))]


class World:
    """What the program has, and the operations on it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.threads = [ThreadPoolExecutor(1) for _ in range(THREADS)]
        self.streams = [[torch.cuda.Stream(gpu) for _ in range(STREAMS)] for gpu in range(GPUS)]
        self.blocks = LiveBlocks()
        self.pools: list[tuple[int, torch.cuda.MemPool]] = []
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.is_enabled = True
        self.limited: set[int] = set()
        self.kept = [held(gpu) for gpu in range(GPUS)]
        self.done: collections.Counter[str] = collections.Counter()

    def step(self) -> None:
        kinds = [self.allocate, self.free, self.record, self.check_one, *RARE]
        weights = [40, 38 if len(self.blocks) < MOST_LIVE else 60, 8, 8, *[RARE_WEIGHT] * len(RARE)]
        kind = self.random.choices(kinds, weights)[0]
        operation = kind.__get__(self) if kind in RARE else kind
        if not self.is_enabled and self.random.random() < BACK_ON:
            operation = self.toggle
        self.done[operation.__name__] += 1
        self.on_thread(operation)

    def on_thread(self, operation) -> None:
        self.random.choice(self.threads).submit(operation).result()

    # --- Blocks.

    def _draw_stream(self, gpu: int) -> torch.cuda.Stream:
        streams = self.streams[gpu]
        return self.random.choice([*streams, torch.cuda.default_stream(gpu)])

    def allocate(self, pool: torch.cuda.MemPool | None = None, gpu: int | None = None) -> None:
        gpu = self.random.randrange(GPUS) if gpu is None else gpu
        size = draw_size(self.random)
        try:
            with torch.cuda.stream(self._draw_stream(gpu)):
                tensor = torch.empty(size, dtype=torch.uint8, device=f"cuda:{gpu}")
        except torch.OutOfMemoryError:
            self.done["out of memory"] += 1
            if pool is None and self.is_enabled and gpu not in self.limited:
                check_nothing_was_left(gpu, size)
            for name in self.random.sample(self.blocks.names(), len(self.blocks) // 2):
                self.blocks.drop(name)
            return
        self._enter(tensor)

    def _enter(self, tensor: torch.Tensor) -> None:
        self.blocks.enter(tensor)
        self.done["ours" if _native.load().owns(tensor.data_ptr()) else "native's"] += 1

    def free(self) -> None:
        if (block := self.blocks.any(self.random)) is not None:
            self.blocks.drop(block.name)

    def record(self) -> None:
        if (block := self.blocks.any(self.random)) is not None:
            block.tensor.record_stream(self._draw_stream(block.gpu))

    def check_one(self) -> None:
        if (block := self.blocks.any(self.random)) is not None:
            block.check()

    # --- What is rare.

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.random.randrange(GPUS))

    def toggle(self) -> None:
        frugal_alloc.disable() if self.is_enabled else frugal_alloc.enable()
        self.is_enabled = not self.is_enabled

    def limit(self) -> None:
        gpu = self.random.randrange(GPUS)
        if gpu in self.limited:
            self.limited.remove(gpu)
            torch.cuda.set_per_process_memory_fraction(1.0, gpu)
        else:
            self.limited.add(gpu)
            torch.cuda.set_per_process_memory_fraction(self.random.uniform(0.3, 0.9), gpu)

    def use_pool(self) -> None:
        if len(self.pools) < 3:
            gpu = self.random.randrange(GPUS)
            with torch.cuda.device(gpu):  # A pool belongs to the GPU on which it was made.
                self.pools.append((gpu, torch.cuda.MemPool()))
        gpu, pool = self.random.choice(self.pools)
        with torch.cuda.use_mem_pool(pool, gpu):
            for _ in range(self.random.randint(1, 4)):
                self.allocate(pool, gpu)
        if self.random.random() < 0.3:
            self.pools.remove((gpu, pool))

    def capture(self) -> None:
        gpu = self.random.randrange(GPUS)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        try:
            stream = self.streams[gpu][0]
            with torch.cuda.device(gpu), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                inside = [torch.empty(draw_size(self.random), dtype=torch.uint8, device="cuda") for _ in range(3)]
                self.free()
                self.record()
                kept = inside[: self.random.randint(0, 3)]
                del inside
        except torch.OutOfMemoryError:
            self.done["out of memory in a capture"] += 1
            return
        self.graphs.append(graph)
        for tensor in kept:
            self._enter(tensor)
        graph.replay()
        if len(self.graphs) > 3:
            torch.cuda.synchronize()
            self.graphs.pop(0)

    def export(self) -> None:
        """As a producer and a consumer in one: what is sent moves to memory that another process can open, once."""
        if (block := self.blocks.any(self.random)) is None:
            return
        storage = block.tensor.untyped_storage()
        try:
            gpu, *_, counter, offset, _, _ = storage._share_cuda_()
        except torch.OutOfMemoryError:
            self.done["out of memory for an export"] += 1
            return
        storage._release_ipc_counter(counter, offset, device=gpu)
        torch.cuda.synchronize(gpu)
        self.blocks.follow_move(block)

    # --- What must be so.

    def check_counts(self) -> None:
        torch.cuda.ipc_collect()
        for gpu in range(GPUS):
            live = self.blocks.on(gpu)
            counted = torch.cuda.memory_stats(gpu)["allocation.all.current"] - self.kept[gpu][0]
            assert counted == live, f"GPU {gpu}: {counted} blocks are counted, and {live} are there"

    def finish(self) -> None:
        self.check_counts()
        for name in self.blocks.names():
            self.blocks.drop(name)
        self.pools.clear()
        self.graphs.clear()
        for thread in self.threads:
            thread.shutdown()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.ipc_collect()
        torch.cuda.empty_cache()
        after = [held(gpu) for gpu in range(GPUS)]
        assert after == self.kept, f"(blocks, bytes, bytes reserved) of each GPU: {after} instead of {self.kept}"


def draw_size(drawn: random.Random) -> int:
    return drawn.choice(
        [
            lambda: drawn.randint(16, 4096),
            lambda: drawn.randint(16, 1 << 20),
            lambda: drawn.randint(1 << 20, 12 << 20),
            lambda: PAGE * drawn.randint(1, 24) + GRAIN * drawn.randint(-2, 2),
        ]
    )()


def check_nothing_was_left(gpu: int, size: int) -> None:
    """After an OOM: whole pages that nobody uses would not have done."""
    torch.cuda.synchronize()
    unused = torch.cuda.mem_get_info(gpu)[0] // PAGE
    # Replays of a graph that lives may read what is free in its pool.
    kept = {pool.id for pool in _native.load().private_pools() if pool.holders}
    for segment in torch.cuda.memory_snapshot():
        is_kept = not segment["is_expandable"] and segment["segment_pool_id"] in kept
        if segment["device"] != gpu or is_kept or not _native.load().owns(segment["address"]):
            continue
        pages = set()
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                pages.update(range(block["address"] // PAGE, (block["address"] + block["size"] - 1) // PAGE + 1))
        # A segment of cudaMalloc goes as a whole.
        are_free = segment["is_expandable"] or not pages
        unused += segment["total_size"] // PAGE - len(pages) if are_free else 0
    needed = -(-size // PAGE)
    assert needed > unused, f"GPU {gpu}: no memory for {size} bytes, with {unused} pages that nobody uses"


def held(gpu: int) -> tuple[int, int, int]:
    """Blocks and bytes allocated, and bytes reserved."""
    blocks = torch.cuda.memory_stats(gpu).get("allocation.all.current", 0)
    return blocks, torch.cuda.memory_allocated(gpu), torch.cuda.memory_reserved(gpu)


def capture_nothing(gpu: int) -> torch.cuda.CUDAGraph:
    """A graph that keeps what PyTorch keeps for all graphs of a GPU: the state of its generator of random numbers."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(gpu), torch.cuda.graph(graph, stream=torch.cuda.Stream(gpu)):
        pass
    return graph


RARE = [
    World.empty_cache,
    World.synchronize,
    World.toggle,
    World.limit,
    World.use_pool,
    World.capture,
    World.export,
    World.check_counts,
]
RARE_WEIGHT = 0.15
BACK_ON = 0.02  # the chance that frugal_alloc is enabled again, in each operation


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--of-program", type=int, default=5000, help="operations until all is freed")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    frugal_alloc.enable()
    warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
    graphs = [capture_nothing(gpu) for gpu in range(GPUS)]
    torch.cuda.empty_cache()
    start = time.monotonic()
    done: collections.Counter[str] = collections.Counter()
    programs = -(-arguments.operations // arguments.of_program)
    for seed in range(arguments.seed, arguments.seed + programs):
        world = World(seed)
        try:
            for _ in range(arguments.of_program):
                world.step()
            if not world.is_enabled:
                world.toggle()
            world.finish()
        except BaseException:
            print(f"seed {seed} fails after {world.done.total()} operations", file=sys.stderr)
            raise
        for gpu in world.limited:
            torch.cuda.set_per_process_memory_fraction(1.0, gpu)
        done += world.done
    seconds = time.monotonic() - start
    del graphs
    last = arguments.seed + programs - 1
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(done.items()))
    print(f"{programs * arguments.of_program} operations, seeds {arguments.seed} to {last}: {counts}; {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

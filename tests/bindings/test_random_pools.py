"""Random programs of MemPools, graphs, checkpoints and threads: live tensors never overlap, and keep their contents.

Threads take turns as the program draws them, so that a seed is always the same run. The model knows what memory holds:
a replay writes what its inputs had, and may write over what was made in its pool after the pool's first capture.
"""

from __future__ import annotations

import bisect
import collections
import ctypes
import gc
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from binding_helpers import MIB, UsersAllocator

GPUS = torch.cuda.device_count()
SEED = int(os.environ.get("FRUGAL_TEST_SEED", "1"))
USERS = UsersAllocator()

pytestmark = [
    pytest.mark.simulated_gpu,  # the host reads its memory
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty"),
]


class Pool:
    """Of a graph where `options` is None, else a MemPool."""

    def __init__(self, gpu: int, options: dict[str, Any] | None) -> None:
        self.gpu, self.is_captured, self.graphs = gpu, False, list[Graph]()
        with torch.cuda.device(gpu):
            self.mem_pool = None if options is None else torch.cuda.MemPool(**options)
        self.id = torch.cuda.graph_pool_handle() if options is None else self.mem_pool.id
        # Of what serves ordinary requests, nobody knows what a replay writes over.
        self.can_be_captured = options is None or not {"allocator", "use_on_oom"} & options.keys()
        # If there is a checkpoint: it, and the blocks at that time by their addresses.
        self.checkpoint: tuple[Any, dict[int, Block]] | None = None


class Block:
    """A tensor, and what its bytes are if that is known; or memory that a checkpoint brought back without a tensor."""

    def __init__(self, pool: Pool | None, gpu: int, start: int, size: int) -> None:
        self.pool, self.gpu, self.start, self.end = pool, gpu, start, start + size
        self.tensor: torch.Tensor | None = None
        self.value: int | None = None
        self.stream = torch.cuda.default_stream(gpu)
        self.is_stable = pool is None or not pool.is_captured
        self.is_recorded = False
        self.readers = 0  # graphs

    def check(self) -> None:
        if self.value is not None:
            torch.cuda.synchronize(self.gpu)
            for place in (*range(self.start, self.end, 99_991), self.end - 1):
                assert ctypes.string_at(place, 1)[0] == self.value, f"a tensor's byte is lost at {place:#x}"

    def free(self) -> None:
        if self.tensor is None:
            torch._C._cuda_cudaCachingAllocator_raw_delete(self.start)
        with torch.cuda.stream(self.stream):
            self.tensor = None


class Graph:
    """One with what it reads, and its outputs: each with the block that it comes from, if any, and what is added."""

    def __init__(self, reads: list[Block]) -> None:
        self.graph, self.reads = torch.cuda.CUDAGraph(), reads
        self.outputs: list[tuple[Block | None, int, Block]] = []
        for block in reads:
            block.readers += 1

    def reset(self) -> None:
        for block in self.reads:
            block.readers -= 1
        for _, _, block in self.outputs:
            block.is_stable = False
        self.graph.reset()

    def replay(self) -> set[Block]:
        """Returns whose values are known now."""
        for source, added, block in self.outputs:
            value = 0 if source is None else source.value
            block.value = None if value is None else (value + added) % 256
        with torch.cuda.device(self.outputs[0][2].gpu):
            torch.cuda.synchronize()
            self.graph.replay()
            torch.cuda.synchronize()
        return {block for _, _, block in self.outputs}


class Blocks:
    """Those in use, none of which may reach into another."""

    def __init__(self, chance: random.Random) -> None:
        self.all: list[Block] = []
        self._chance = chance
        self._ranges: list[list[tuple[int, int]]] = [[] for _ in range(GPUS)]

    def enter(self, block: Block) -> Block:
        ranges = self._ranges[block.gpu]
        at = bisect.bisect(ranges, (block.start, block.end))
        assert at == 0 or ranges[at - 1][1] <= block.start, f"{block.start:#x} lies in a block in use"
        assert at == len(ranges) or block.end <= ranges[at][0], f"{block.start:#x} reaches into a block in use"
        ranges.insert(at, (block.start, block.end))
        self.all.append(block)
        return block

    def enter_tensor(self, tensor: torch.Tensor, pool: Pool | None, stream: torch.cuda.Stream) -> Block:
        block = Block(pool, tensor.device.index, tensor.data_ptr(), tensor.numel())
        block.tensor, block.stream = tensor, stream
        return self.enter(block)

    def leave(self, block: Block) -> None:
        self.all.remove(block)
        self._ranges[block.gpu].remove((block.start, block.end))

    def drop(self, block: Block) -> None:
        block.check()
        self.leave(block)
        block.free()

    def any(self, holds: Callable[[Block], bool] = lambda _: True) -> Block | None:
        """One that no graph reads."""
        found = [block for block in self.all if block.readers == 0 and holds(block)]
        return self._chance.choice(found) if found else None

    def drop_any(self, count: int = 1) -> None:
        for _ in range(count):
            if (block := self.any()) is not None:
                self.drop(block)

    def of(self, pool: Pool) -> list[Block]:
        return [block for block in self.all if block.pool is pool]


class Program:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.blocks = Blocks(self.chance)
        self.pools: list[Pool] = []
        self.streams = [[torch.cuda.Stream(gpu), torch.cuda.Stream(gpu)] for gpu in range(GPUS)]
        self.threads = [ThreadPoolExecutor(1) for _ in range(4)]  # the last runs beside a capture
        self.done: collections.Counter[str] = collections.Counter()

    def run(self, operations: int) -> None:
        weights = {self.allocate: 30, self.blocks.drop_any: 24, self.record: 6, self.use_pool: 9, self.drop_pool: 2}
        weights |= {self.capture: 7, self.replay: 5, self.reset: 3, self.save: 3, self.restore: 4}
        weights[torch.cuda.empty_cache] = 1
        for _ in range(operations):
            (operation,) = self.chance.choices(list(weights), list(weights.values()))
            self.chance.choice(self.threads[:3]).submit(operation).result()
        for block in list(self.blocks.all):
            self.blocks.drop(block)
        self.pools.clear()
        for thread in self.threads:
            thread.shutdown()

    # --- Tensors

    def size(self) -> int:
        sizes = self.chance.randint(1, 4096), self.chance.randint(1, 12 * MIB), 2 * MIB * self.chance.randint(1, 16)
        return self.chance.choice(sizes)

    def allocate(self, pool: Pool | None = None, gpu: int | None = None) -> None:
        gpu = self.chance.randrange(GPUS) if gpu is None else gpu
        stream = self.chance.choice(self.streams[gpu])
        try:
            self.make(pool, stream)
        except torch.OutOfMemoryError:
            self.done["out of memory"] += 1
            self.blocks.drop_any(len(self.blocks.all) // 2)

    def make(self, pool: Pool | None, stream: torch.cuda.Stream) -> None:
        value = self.chance.randint(1, 255)
        with torch.cuda.stream(stream):
            tensor = torch.empty(self.size(), dtype=torch.uint8, device="cuda").fill_(value)
        self.blocks.enter_tensor(tensor, pool, stream).value = value

    def record(self) -> None:
        # Those of a pool with a checkpoint are to be free by then.
        block = self.blocks.any(lambda one: one.tensor is not None and (one.pool is None or not one.pool.checkpoint))
        if block is not None:
            other = self.chance.choice(self.streams[block.gpu])
            other.wait_stream(block.stream)
            with torch.cuda.stream(other):
                block.tensor[:100].add_(0)
            block.tensor.record_stream(other)
            block.is_recorded = True

    # --- Pools

    def any_pool(self, *kinds: dict[str, Any] | None, holds: Callable[[Pool], bool] = lambda _: True) -> Pool | None:
        """One that is there, or else of these kinds."""
        if kinds and (len(self.pools) < 4 or self.chance.random() < 0.2):
            self.pools.append(Pool(self.chance.randrange(GPUS), self.chance.choice(kinds)))
        found = [pool for pool in self.pools if holds(pool)]
        return self.chance.choice(found) if found else None

    def use_pool(self) -> None:
        pool = self.any_pool({}, {"no_split": True}, {"use_on_oom": True}, {"allocator": USERS.allocator})
        if pool.mem_pool is not None:
            with torch.cuda.use_mem_pool(pool.mem_pool, pool.gpu):
                for _ in range(self.chance.randint(1, 4)):
                    self.allocate(pool, pool.gpu)

    def drop_pool(self) -> None:
        """Its tensors live on."""
        if (pool := self.any_pool(holds=lambda pool: not pool.graphs)) is not None:
            self.pools.remove(pool)
            pool.mem_pool = pool.checkpoint = None

    # --- Graphs

    def capture(self) -> None:
        pool = self.any_pool({}, {"no_split": True}, None, None)
        sources = [one for one in self.blocks.all if one.gpu == pool.gpu and one.is_stable and one.value is not None]
        if not sources or not pool.can_be_captured or len(pool.graphs) > 4:
            return
        graph, stream = Graph(self.chance.choices(sources, k=2)), self.streams[pool.gpu][0]
        made: list[tuple[Block | None, int, torch.Tensor]] = []
        where = torch.cuda.graph(graph.graph, pool=pool.id, stream=stream, capture_error_mode="thread_local")
        try:
            with torch.cuda.device(pool.gpu), where:
                pool.is_captured = True
                for source in graph.reads:
                    made += self.captured_from(source)
        except torch.OutOfMemoryError:
            self.done["out of memory"] += 1
            made.clear()
            graph.reset()
            self.blocks.drop_any(len(self.blocks.all) // 2)
        else:
            self.done["captures"] += 1
            outputs = [(source, added, self.blocks.enter_tensor(one, pool, stream)) for source, added, one in made]
            graph.outputs = outputs
            pool.graphs.append(graph)

    def captured_from(self, source: Block) -> list[tuple[Block | None, int, torch.Tensor]]:
        """Outputs, and what is needed on the way, while another thread goes on."""
        added = self.chance.randint(0, 255)
        scratch = torch.empty(self.size(), dtype=torch.uint8, device="cuda").fill_(9)
        middle = source.tensor + added
        self.threads[3].submit(self.go_on_beside, self.streams[source.gpu][1]).result()
        outputs = [(source, added + 1, middle + 1)]
        return [*outputs, (None, 9, scratch)] if self.chance.random() < 0.3 else outputs

    def go_on_beside(self, stream: torch.cuda.Stream) -> None:
        if self.chance.random() < 0.5:
            return self.make(None, stream)
        if (block := self.blocks.any(lambda one: one.pool is None)) is not None:
            self.blocks.leave(block)
            block.free()
        return None

    def replay(self) -> None:
        """All graphs of a pool in turn, since later ones may use what was free in earlier ones."""
        if (pool := self.any_pool(holds=lambda pool: bool(pool.graphs))) is not None:
            known = set[Block]().union(*[graph.replay() for graph in pool.graphs])
            for block in self.blocks.of(pool):
                if block not in known and not block.is_stable:
                    block.value = None
            for block in self.blocks.all:
                block.check()
            self.done["replays"] += 1

    def reset(self) -> None:
        if (pool := self.any_pool(holds=lambda pool: bool(pool.graphs))) is not None:
            pool.graphs.pop(self.chance.randrange(len(pool.graphs))).reset()
            if not pool.graphs and pool.mem_pool is None:
                self.pools.remove(pool)
                pool.checkpoint = None

    # --- Checkpoints

    def save(self) -> None:
        pool = self.any_pool(holds=lambda pool: pool.can_be_captured and bool(pool.graphs or pool.mem_pool))
        if pool is not None and not any(block.is_recorded for block in self.blocks.of(pool)):
            state = torch._C._cuda_getCheckpointState(pool.gpu, pool.id)
            pool.checkpoint = state, {block.start: block for block in self.blocks.of(pool)}
            pool.is_captured = True

    def restore(self) -> None:
        if (pool := self.any_pool(holds=lambda pool: pool.checkpoint is not None)) is None:
            return
        (state, live), pool.checkpoint = pool.checkpoint, None
        torch.cuda.synchronize(pool.gpu)
        stale = [block for block in self.blocks.of(pool) if live.get(block.start) is not block]
        storages = [block.tensor.untyped_storage()._cdata for block in stale if block.tensor is not None]
        torch._C._cuda_setCheckpointPoolState(pool.gpu, state, storages, [])
        for block in stale:
            self.blocks.leave(block)
            block.tensor = block.value = None  # without a deleter
        here = {block.start for block in self.blocks.of(pool)}
        for block in live.values():
            if block.start not in here:
                self.blocks.enter(Block(pool, pool.gpu, block.start, block.end - block.start))
        assert torch._C._cuda_checkPoolLiveAllocations(pool.gpu, pool.id, set(live))
        self.done["restores"] += 1


def held() -> list[tuple[int, int]]:
    return [(torch.cuda.memory_allocated(gpu), torch.cuda.memory_reserved(gpu)) for gpu in range(GPUS)]


@pytest.fixture
def limited():
    """What is held at first, of a limit for each GPU with which memory is now and then out."""
    kept = [torch.cuda.CUDAGraph() for _ in range(GPUS)]  # what PyTorch keeps for all graphs of a GPU
    for gpu, graph in enumerate(kept):
        with torch.cuda.device(gpu), torch.cuda.graph(graph, stream=torch.cuda.Stream(gpu)):
            pass
        torch.cuda.set_per_process_memory_fraction(500 * MIB / torch.cuda.mem_get_info(gpu)[1], gpu)
    yield held()
    for gpu in range(GPUS):
        torch.cuda.set_per_process_memory_fraction(1.0, gpu)


def test_live_tensors_never_overlap_and_keep_their_contents(limited) -> None:
    done: collections.Counter[str] = collections.Counter()
    for seed in range(2 * SEED, 2 * SEED + 2):
        print(f"seed {seed}, of FRUGAL_TEST_SEED={SEED}")
        program = Program(seed)
        program.run(300)
        done += program.done
        del program
        gc.collect()
        torch.cuda.empty_cache()
        assert held() == limited and not USERS.live
    assert all(done[kind] for kind in ("captures", "replays", "restores", "out of memory")), done

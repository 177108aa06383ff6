"""Programs of two ranks on the simulated GPU: each writes what it saw into FOLDER/RANK.json.

torchrun --nproc-per-node 2 nccl_programs.py NAME FOLDER
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import frugal_alloc
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
WIDTH = 512
TYPES = [torch.int32, torch.int64, torch.uint8, torch.float32, torch.float64, torch.bfloat16, torch.float16]


def numbers(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device="cuda")


def taken_by_driver() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def collectives() -> dict:
    sums = {}
    for dtype in TYPES:
        tensor = numbers(RANK + 1, 2, dtype=dtype)
        dist.all_reduce(tensor)
        sums[str(dtype)] = tensor.tolist()
    operators = {}
    for name in ("AVG", "MIN", "MAX", "PRODUCT"):
        tensor = numbers(RANK + 1, 6)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, name))
        operators[name] = tensor.tolist()
    found = torch.tensor([RANK == 1], device="cuda")
    dist.all_reduce(found, dist.ReduceOp.MAX)
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK * 1000})
    told = ["a", {"b": 3}] if RANK == 0 else [None, None]
    dist.broadcast_object_list(told)
    scattered = numbers(0, 0)
    dist.reduce_scatter_tensor(scattered, numbers(1, 2, 3, 4) * (RANK + 1))
    swapped = numbers(0, 0)
    dist.all_to_all_single(swapped, numbers(10 * RANK, 10 * RANK + 1))
    gathered = [torch.empty(2, device="cuda") for _ in range(2)] if RANK == 0 else None
    dist.gather(numbers(RANK, 7), gathered)
    part = torch.empty(1, device="cuda")
    dist.scatter(part, [numbers(5), numbers(6)] if RANK == 0 else None)
    dist.barrier()
    return {
        "sums": sums,
        "operators": operators,
        "found": found.tolist(),
        "objects": [len(one["text"]) for one in objects],
        "told": told,
        "scattered": scattered.tolist(),
        "swapped": swapped.tolist(),
        "gathered": [one.tolist() for one in gathered or []],
        "part": part.tolist(),
    }


def pairs() -> dict:
    """Sends and receives, alone and together; both send first, and nobody waits for ever."""
    received = torch.empty(2, device="cuda")
    other = 1 - RANK
    dist.send(numbers(RANK, 9), other)
    dist.recv(received, other)
    together = torch.empty(1, device="cuda")
    batch = [dist.P2POp(dist.isend, numbers(RANK), other), dist.P2POp(dist.irecv, together, other)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    groups = [dist.new_group([0]), dist.new_group([0, 1])]
    tensor = numbers(1)
    dist.all_reduce(tensor, group=groups[1])
    return {"received": received.tolist(), "together": together.tolist(), "of group": tensor.tolist()}


def graph() -> dict:
    """An all_reduce that a CUDA graph captures."""
    tensor = numbers(RANK + 1, 1)
    dist.all_reduce(tensor.clone())
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_reduce(tensor)
    during = tensor.tolist()
    captured.replay()
    captured.replay()
    torch.cuda.synchronize()
    return {"during": during, "after": tensor.tolist()}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 8, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(self.norm(x))))


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.Tensor, number: int = 3) -> list[float]:
    losses = []
    for _ in range(number):
        loss = model(data).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ddp() -> dict:
    torch.manual_seed(RANK)
    before = taken_by_driver()
    model = DistributedDataParallel(nn.Sequential(Block(), Block()).cuda(), device_ids=[RANK])
    connected = taken_by_driver()
    optimizer = torch.optim.AdamW(model.parameters())
    steps(model, optimizer, torch.rand(2, 16, WIDTH, device="cuda"))
    return {"nccl": connected - before, "finite": bool(torch.isfinite(next(model.parameters()).sum()))}


def small_ddp() -> dict:
    """Of a size that is computed on the CPU in no time; run with all values."""
    torch.manual_seed(RANK)  # DDP gives all ranks the parameters of rank 0
    model = nn.Sequential(nn.Linear(8, 600), nn.Tanh(), nn.Linear(600, 600), nn.Linear(600, 1)).cuda()
    model = DistributedDataParallel(model, device_ids=[RANK])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(10 + RANK)
    losses = steps(model, optimizer, torch.rand(4, 8).cuda(), number=4)
    return {"losses": losses, "sums": [parameter.double().sum().item() for parameter in model.parameters()]}


def fill_cache() -> None:
    """PyTorch's allocator has all of the GPU, and no tensor lies in it."""
    held = []
    with contextlib.suppress(torch.OutOfMemoryError):
        while True:
            held.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))


def beside_full_cache() -> dict:
    """What NCCL takes (bytes) for a late group, and for collectives of other kinds in it."""
    if os.environ["ALLOCATOR"] == "frugal":
        frugal_alloc.enable()
    group, value, other = None, numbers(RANK, 1), numbers(0, 0)
    taken = {}

    def make_group() -> None:
        nonlocal group
        group = dist.new_group([0, 1])
        fill_cache()
        dist.all_reduce(value, group=group)

    def make_ddp() -> None:
        layer, own = nn.Linear(4, 4).cuda(), dist.new_group([0, 1])
        fill_cache()
        DistributedDataParallel(layer, process_group=own)

    def send() -> None:
        dist.send(value, 1, group=group) if RANK == 0 else dist.recv(other, 0, group=group)

    uses = {
        "default group": lambda: dist.all_reduce(value),
        "late group": make_group,
        "DistributedDataParallel": make_ddp,
        "pair": send,
        "all pairs": lambda: dist.all_to_all_single(other, value, group=group),
    }
    for name, use in uses.items():
        fill_cache()
        before = taken_by_driver()
        value.mul_(2)  # so that the GPU is busy
        try:
            use()
        except dist.DistBackendError as error:
            return {"error": str(error)}
        taken[name] = taken_by_driver() - before
    return taken


def fsdp2() -> dict:
    gc.collect()
    before = torch.cuda.memory_allocated()
    model = nn.Sequential(*(Block() for _ in range(4))).cuda()
    whole = sum(parameter.nbytes for parameter in model.parameters())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model:
        fully_shard(block, mp_policy=policy, reshard_after_forward=True)
    fully_shard(model, mp_policy=policy)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated() - before
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.rand(2, 16, WIDTH, device="cuda")
    steps(model, optimizer, data, number=2)
    model(data).float().sum().backward()
    return {
        "whole": whole,
        "held": held,
        "sharded": sum(parameter.to_local().nbytes for parameter in model.parameters()),
        "gradients": sum(parameter.grad.to_local().nbytes for parameter in model.parameters()),
    }


def tensor_parallel() -> dict:
    mesh = init_device_mesh("cuda", (2,))
    block = Block().cuda()
    parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.AdamW(block.parameters(), foreach=False)
    steps(block, optimizer, torch.rand(2, 16, WIDTH, device="cuda"))
    shared = ZeroRedundancyOptimizer(nn.Sequential(Block(), Block()).cuda().parameters(), torch.optim.AdamW)
    own = sum(p.numel() for group in shared.optim.param_groups for p in group["params"])
    return {"up": list(block.up.weight.to_local().shape), "down": list(block.down.weight.to_local().shape), "own": own}


def dies() -> dict:
    # torchrun ends those that are left as soon as it sees that one has gone.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    dist.barrier()
    if RANK == 1:
        os._exit(3)
    try:
        dist.all_reduce(numbers(1))
    except dist.DistBackendError as error:
        return {"error": str(error)}
    return {}


PROGRAMS: dict[str, Callable[[], dict]] = {
    one.__name__: one
    for one in (collectives, pairs, graph, ddp, small_ddp, beside_full_cache, fsdp2, tensor_parallel, dies)
}


def main(names: str, folder: str, backend: str = "nccl") -> None:
    torch.cuda.set_device(RANK)
    gpu = torch.device("cuda", RANK) if backend == "nccl" else None
    store = f"file://{folder}/store"
    dist.init_process_group(backend, init_method=store, rank=RANK, world_size=2, device_id=gpu)
    facts = {name: PROGRAMS[name]() for name in names.split(",")}
    Path(folder, f"{RANK}.json").write_text(json.dumps(facts))
    if not any("error" in fact for fact in facts.values()):
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

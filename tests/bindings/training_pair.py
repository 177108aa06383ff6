"""Two processes that train one model, each on a GPU of its own: what test_distributed.py runs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import frugal_alloc
import torch
import torch.distributed as distributed
from frugal_alloc import _native
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH = 64
STEPS = 4


def run(rank: int, kind: str, folder: str) -> None:
    """Trains with "ddp" or "fsdp2", and writes what was seen into a file of the folder."""
    frugal_alloc.enable()
    torch.cuda.set_device(rank)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    reduced = torch.full((1000,), rank + 1, dtype=torch.int32).cuda()
    distributed.all_reduce(reduced)
    facts = {"reduced": sorted(set(reduced.tolist()))} | _train(rank, kind)
    distributed.destroy_process_group()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(facts))


def _train(rank: int, kind: str) -> dict:
    torch.manual_seed(1)
    samples = torch.randn(8, WIDTH)
    reference = _model()
    _steps(reference, samples)
    model = _model().cuda()
    if kind == "ddp":
        model = DistributedDataParallel(model, device_ids=[rank])
    else:
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    allocated = _steps(model, samples[rank * 4 : rank * 4 + 4].cuda())
    local = [p.to_local() if kind == "fsdp2" else p.detach() for p in model.parameters()]
    facts = {
        "ours": all(_native.load().owns(p.data_ptr()) for p in local),
        "grew": _grew(allocated),
        "sizes": [p.numel() for p in local],
    }
    if kind == "ddp":
        pairs = zip(local, reference.parameters(), strict=True)
        facts["difference"] = max(float((mine.cpu() - other.detach()).abs().max()) for mine, other in pairs)
    return facts


def _model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(3)])


def _steps(model: torch.nn.Module, samples: torch.Tensor) -> list[int]:
    """Trains; returns how much was allocated after each step."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    allocated = []
    for _ in range(STEPS):
        (model(samples) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        allocated.append(torch.cuda.memory_allocated())
    return allocated


def _grew(allocated: list[int]) -> bool:
    """Whether more stays allocated than after the step that left least.

    A thread of gloo's says that a collective is done before it lets go of the collective's tensors, so any sample may
    count some of those; after the last step they are waited for.
    """
    waits = 0
    while torch.cuda.memory_allocated() > min(allocated):
        if waits == 6000:
            return True
        waits += 1
        time.sleep(0.01)
    return False

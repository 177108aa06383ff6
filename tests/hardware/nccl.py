"""P8: NCCL in a process group of one: what it takes, its values beside an allocator, and memory that it registers."""

from __future__ import annotations

import json
import os

from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.processes import answer_of
from frugal_alloc._command.doctor.step import Needs, StepReport
from frugal_alloc._command.doctor.virtual_memory import MIB

_REGISTER = {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1", "FRUGAL_ALLOC_CONF": "remap:off"}
#: What is tried, with ours or PyTorch's allocator, in which environment.
_WAYS = {"NCCL alone": (False, {}), "NCCL beside ours": (True, {}), "NCCL registers ours": (True, _REGISTER)}
_ROUNDS, _BYTES = 200, 256 * MIB
_SIMULATED_BYTES = MIB


def run(report: StepReport) -> None:
    for way, (is_ours, environment) in _WAYS.items():
        with report.part(way):
            size = _SIMULATED_BYTES if report.simulated else _BYTES
            found = answer_of(_carry_out, is_ours, size, report.rounds(_ROUNDS, 4), **environment)
            wrong, rounds = found["wrong"], found["rounds"]
            report.check(f"{way}: it ends well", True, f"{rounds} rounds")
            report.check(f"{way}: values", not wrong, f"wrong in {wrong} of {rounds} rounds", Needs.VALUES)
            report.figure(f"{way}: memory of its communicator", found["taken"] / MIB, "MiB")
            report.figure(f"{way}: an all-reduce of {size / MIB:.0f} MiB", found["ms"], "ms")


def _carry_out(is_ours: bool, size: int, rounds: int) -> None:
    import torch
    import torch.distributed as distributed

    if is_ours:
        import frugal_alloc

        frugal_alloc.enable()
    first = torch.ones(1, device="cuda")
    free = torch.cuda.mem_get_info()[0]
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    distributed.all_reduce(first)
    torch.cuda.synchronize()
    taken, wrong, milliseconds = free - torch.cuda.mem_get_info()[0], 0, []
    for number in range(rounds):
        # Of another size each time, so that memory comes from what was joined and moved.
        numbers = torch.full((size // 4 // (1 + number % 3),), float(number), device="cuda")
        gathered = torch.empty_like(numbers)
        torch.cuda.synchronize()
        began = now()
        distributed.all_reduce(numbers)
        torch.cuda.synchronize()
        milliseconds.append((now() - began) / 1e6)
        distributed.all_gather_into_tensor(gathered, numbers)
        wrong += not bool((gathered == number).all())
    found = {"wrong": wrong, "rounds": rounds, "taken": taken, "ms": min(milliseconds[::3])}
    print(json.dumps(found), flush=True)
    os._exit(0)

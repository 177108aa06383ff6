"""NCCL in a process group of one, beside ours and with memory of ours that it registers; eight processes on a GPU."""

from __future__ import annotations

import json
import os
import random
import sys

import pytest
from frugal_alloc._command.doctor.costs import now
from frugal_alloc._command.doctor.driver import GIB, MIB

from hardware.on_gpu import SIMULATED, Figure, answers_of, are_ready, check_ending, rounds, shown, started, tell

_REGISTER = {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1", "FRUGAL_ALLOC_CONF": "remap:off"}
_BYTES = MIB if SIMULATED else 256 * MIB
_PROCESSES, _SECONDS, _WARM_UP = 8, 0.0 if SIMULATED else 30.0, 10


@pytest.mark.parametrize(
    ("way", "is_ours", "environment"),
    [("NCCL alone", False, {}), ("NCCL beside ours", True, {}), ("NCCL registers ours", True, _REGISTER)],
)
def test_nccl_gathers_the_right_values(way: str, is_ours: bool, environment: dict[str, str], figure: Figure) -> None:
    (found,) = answers_of(gather, is_ours, rounds(200, 4), **environment)
    figure(f"{way}: memory of its communicator", found["taken"] / MIB, "MiB")
    figure(f"{way}: an all-reduce of {_BYTES / MIB:.0f} MiB", found["ms"], "ms")
    shown(found["wrong"] == 0, f"wrong in {found['wrong']} rounds")


def gather(is_ours: bool, count: int) -> None:
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
    for number in range(count):
        # Of another size each time, so that memory comes from what was joined and moved.
        numbers = torch.full((_BYTES // 4 // (1 + number % 3),), float(number), device="cuda")
        gathered = torch.empty_like(numbers)
        torch.cuda.synchronize()
        began = now()
        distributed.all_reduce(numbers)
        torch.cuda.synchronize()
        milliseconds.append((now() - began) / 1e6)
        distributed.all_gather_into_tensor(gathered, numbers)
        wrong += not bool((gathered == number).all())
    tell(wrong=wrong, taken=taken, ms=min(milliseconds[::3]))
    os._exit(0)


def test_eight_processes_train_on_a_gpu(figure: Figure) -> None:
    speeds = []
    for count in (1, 2 if SIMULATED else _PROCESSES):
        found = _trained(count)
        assert len(found) == count
        speeds.append(sum(each["steps"] / each["seconds"] for each in found))
        held, retries = sum(each["held"] for each in found), sum(each["retries"] for each in found)
        figure(f"steps of {count} at once", speeds[-1], "steps/s", f"{held / GIB:.2f} GiB held, {retries} retries")
    figure("eight at once ÷ one alone", speeds[1] / speeds[0], "times", "steps of all a second")


def _trained(count: int) -> list[dict[str, float]]:
    """What each tells that has trained beside the others; all begin to count together."""
    running = [started(train, seed) for seed in range(count)]
    try:
        assert are_ready(running), "one of them ended before it had trained"
        for each in running:
            each.stdin.write("go\n")
            each.stdin.flush()
        said = [each.communicate()[0] for each in running]
        for each, text in zip(running, said, strict=True):
            check_ending(each, text)
        return [json.loads(text) for text in said]
    finally:
        for each in running:
            each.kill()
            each.communicate()


def train(seed: int) -> None:
    import frugal_alloc
    import torch

    from bench.training import programs, workloads

    frugal_alloc.enable()
    shapes, steps = random.Random(seed), 0
    model = (programs.small() if SIMULATED else workloads.Gpt2()).cuda()
    step = workloads.train_gpt2(model, 2, workloads.lengths(shapes, SIMULATED))
    for _ in range(1 if SIMULATED else _WARM_UP):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    began = now()
    while not steps or now() - began < _SECONDS * 1e9:
        step()
        torch.cuda.synchronize()
        steps += 1
    stats = frugal_alloc.memory_stats()
    tell(steps=steps, seconds=(now() - began) / 1e9, held=stats["peak_reserved_bytes"], retries=stats["retries"])
    os._exit(0)

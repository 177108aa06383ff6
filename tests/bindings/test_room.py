"""Idle memory goes back before a library takes its own; simulated_gpu/tests/test_nccl.py has what NCCL takes."""

from __future__ import annotations

import pytest
import torch
from binding_helpers import MIB, Simulation, collect, empty, run_well, simulated_gpu, skip_where_others_use_the_gpu
from frugal_alloc import _native

HOUR = 3600 * 10**9


@pytest.fixture
def least() -> int:
    """What is to be free. The cache has all of the GPU meanwhile, and no tensor lies in it."""
    skip_where_others_use_the_gpu()
    # The driver needs memory for a first kernel.
    torch.zeros(4, device="cuda").add_(1)
    collect()
    held = []
    with pytest.raises(torch.OutOfMemoryError):
        while True:
            held.append(empty(64 * MIB))
    held.clear()
    assert torch.cuda.mem_get_info()[0] < 64 * MIB
    yield torch.cuda.mem_get_info()[1] // 16
    torch.cuda.empty_cache()


def test_idle_memory_goes_back_until_a_sixteenth_of_the_gpu_is_free(least):
    before, reserved = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
    _native.load().make_room()
    free = torch.cuda.mem_get_info()[0]
    assert least <= free < least + 16 * MIB
    assert reserved - torch.cuda.memory_reserved() == free - before


@simulated_gpu
def test_one_question_is_all_where_there_is_room(least):
    _native.load().make_room()
    simulation = Simulation()
    kinds = ("unmap", "release", "free", "sync", "event_record", "memory_info")
    before = [simulation.calls(kind) for kind in kinds]
    _native.load().make_room()
    assert [simulation.calls(kind) for kind in kinds] == [*before[:-1], before[-1] + 1]


@simulated_gpu
def test_work_that_does_not_end_is_not_waited_for_longer_than_a_second(least):
    simulation, now = Simulation(), 10**12
    simulation.set_clock(now)
    simulation.keep_busy(torch.cuda.current_stream(), now + HOUR)
    reserved = torch.cuda.memory_reserved()
    syncs = simulation.calls("sync")
    _native.load().make_room()
    assert (torch.cuda.memory_reserved(), simulation.calls("sync")) == (reserved, syncs)
    simulation.set_clock(now + HOUR)


@simulated_gpu
@pytest.mark.parametrize("call", ["memory_info", "event_record", "event_query", "unmap", "release"])
def test_a_driver_that_fails_makes_no_room_and_no_error(least, call):
    reserved = torch.cuda.memory_reserved()
    with Simulation().faults(f"driver.{call}@1+=unknown"):
        _native.load().make_room()
    assert torch.cuda.memory_reserved() <= reserved
    tensor = empty(1024 * MIB)
    assert tensor.fill_(3)[-1].item() == 3


def test_nothing_goes_back_while_a_graph_is_captured(least):
    stays, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        stays.add_(1)
        reserved = torch.cuda.memory_reserved()
        _native.load().make_room()
        assert torch.cuda.memory_reserved() == reserved
    graph.replay()
    torch.cuda.synchronize()


def test_a_process_group_and_the_first_collective_of_each_kind_ask_for_room_once():
    result = run_well("""
import tempfile, torch, torch.distributed as dist
import frugal_alloc
from frugal_alloc import _native
frugal_alloc.enable()
asked = []
_native.load().make_room = lambda: asked.append(1)
def count(call):
    asked.clear()
    call()
    return len(asked)
value = torch.ones(2, device="cuda")
begin = lambda: dist.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
report(
    group=count(begin),
    reduced=[count(lambda: dist.all_reduce(value)) for _ in range(2)],
    sent=[count(lambda: dist.broadcast(value, 0)) for _ in range(2)],
    second_group=count(lambda: dist.new_group([0])),
)
report(known_to_compile=dist._rank_not_in_group is dist.distributed_c10d._rank_not_in_group)
frugal_alloc.disable()
report(off=count(lambda: dist.new_group([0])))
dist.destroy_process_group()
""")
    # A group is named, and a barrier ends its making.
    assert (result["group"], result["reduced"], result["sent"]) == (2, [1, 0], [1, 0])
    assert (result["second_group"], result["off"], result["known_to_compile"]) == (1, 0, True)


# Beside a cache that has all but the reserve: a module's first kernel, and with small modules a new stream's libraries.
BESIDE_FULL_CACHE = """
import torch, frugal_alloc
frugal_alloc.enable()
torch.cuda.init()
value, held, reserve = torch.empty(8, 3, 32, 32, device="cuda"), [], {reserve} << 20
for size in (64 << 20, 2 << 20):
    while torch.cuda.mem_get_info()[0] - size >= reserve:
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
assert torch.cuda.mem_get_info()[0] - reserve < 2 << 20
held.clear()
try:
    value.add_(1)
    if {module} == 4:
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.nn.functional.conv2d(value, torch.ones(8, 3, 3, 3, device="cuda"))
            torch.fft.fft(value @ value)
    report(ends="well")
except RuntimeError as error:
    report(ends=str(error).splitlines()[0])
"""


@simulated_gpu
@pytest.mark.parametrize("module, reserve, ends", [(4, 64, "well"), (902, 64, "out of memory"), (902, 1024, "well")])
def test_the_reserve_is_enough_for_modules_that_are_smaller_and_for_a_streams_libraries(module, reserve, ends):
    result = run_well(
        BESIDE_FULL_CACHE.format(module=module, reserve=reserve),
        FRUGAL_SIM_FULL="1",
        FRUGAL_SIM_MODULE=f"{module}MiB",
        **({} if reserve == 64 else {"FRUGAL_ALLOC_CONF": f"driver_reserve:{reserve}MiB"}),
    )
    assert ends in result["ends"]

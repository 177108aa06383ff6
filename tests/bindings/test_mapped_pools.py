"""Memory of CUDA graphs that is mapped (pools:mapped) sleeps, and graphs find it again as it was."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from binding_helpers import run_well, simulated_gpu
from mapped_pools import MAPPED, START

ONE = """
x = torch.zeros(3 * MIB, device="cuda")
graph, y = captured(lambda: (x * 2 + 1) / 3)
def turn(seed):
    x.fill_(seed)
    graph.replay()
    return y
"""
# What is initialised in one capture, is read by another and is dead for every allocator.
INITIALISED_ONCE = """
pool = torch.cuda.graph_pool_handle()
def initialise():
    state = torch.arange(3 * MIB, device="cuda", dtype=torch.float32)
    return state
first, state = captured(initialise, pool)
x = torch.zeros(1, device="cuda")
second, y = captured(lambda: state + x, pool)
first.replay()
torch.cuda.synchronize()
del state
def turn(seed):
    x.fill_(seed)
    second.replay()
    return y
"""
A_WHOLE_STEP = """
torch.manual_seed(1)
layer = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1)).cuda()
x = torch.randn(256, 512, device="cuda")
def step():
    layer.zero_grad(set_to_none=True)
    loss = layer(x).square().mean()
    loss.backward()
    return loss
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    step()
torch.cuda.current_stream().wait_stream(side)
graph, loss = captured(step)
def turn(seed):
    x.fill_(seed / 10)
    graph.replay()
    return torch.cat([loss.detach().view(1)] + [one.grad.flatten() for one in layer.parameters()])
"""
WITHIN_A_MEM_POOL = """
pool, x = torch.cuda.MemPool(), torch.zeros(3 * MIB, device="cuda")
with torch.cuda.use_mem_pool(pool):
    early = torch.arange(3 * MIB, device="cuda", dtype=torch.float32)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=pool.id):
    y = x * 3 + early
def turn(seed):
    x.fill_(seed)
    graph.replay()
    return y
"""
RESULTS_THAT_GO = """
x = torch.zeros(3 * MIB, device="cuda")
pool = torch.cuda.graph_pool_handle()
graph, y = captured(lambda: x * 2 + 1, pool)
kept = torch.zeros(3 * MIB, device="cuda")
again, result = captured(lambda: kept.copy_(x * 3), pool)
def turn(seed):
    global result
    result = None  # freed while its pool sleeps, the second time
    x.fill_(seed)
    graph.replay()
    first = y.clone()
    again.replay()
    return torch.cat([first, kept])
"""
REPLAYED = {
    "one": ONE,
    "what was initialised once": INITIALISED_ONCE,
    "a whole step": A_WHOLE_STEP,
    "within a MemPool": WITHIN_A_MEM_POOL,
    "results that go": RESULTS_THAT_GO,
}
BEGIN = """
import frugal_alloc
frugal_alloc.enable()
with frugal_alloc.tag("graphs"):
    exec(program)
"""
FAULTS = """
import ctypes
set_faults = ctypes.CDLL(None).frugal_sim_set_faults
set_faults.argtypes = [ctypes.c_char_p]
"""
TURNS = """
def results():
    torch.cuda.synchronize()
    return [turn(seed).cpu().clone() for seed in (1, 2, 3)]
expected = results()
assert any(one.count_nonzero() > 0 for one in expected)
def same():
    return all(torch.equal(one, other) for one, other in zip(results(), expected, strict=True))
"""


def sleeping(program: str, code: str, has_turns: bool = True, **options: Any) -> dict[str, Any]:
    """What the code reports, before which the program's graphs are captured under the tag "graphs"."""
    begin = f"program = {textwrap.dedent(program)!r}\n{START}{BEGIN}{TURNS if has_turns else ''}"
    return run_well(begin + code, **MAPPED | options)


@simulated_gpu
@pytest.mark.parametrize("name", REPLAYED)
def test_replays_after_a_sleep_give_what_those_before_gave(name):
    result = sleeping(
        REPLAYED[name],
        """
def capture_begin(*_, **__):
    raise AssertionError("a graph is captured anew")
torch.cuda.CUDAGraph.capture_begin = capture_begin
slept, whole = [], []
for _ in range(3):
    slept.append(frugal_alloc.sleep("graphs", check="poison").given_back_bytes)
    # Others have its memory meanwhile.
    taken = [torch.full((MIB,), float("nan"), device="cuda") for _ in range(40)]
    del taken
    torch.cuda.empty_cache()
    frugal_alloc.wake("graphs")
    whole.append(same())
report(slept=slept, whole=whole)
""",
    )
    assert result["whole"] == [True] * 3
    assert min(result["slept"]) > 0


def test_a_wake_that_fails_and_cannot_be_undone_loses_nothing():
    result = sleeping(
        INITIALISED_ONCE,
        FAULTS
        + """
stuck, lost = 0, []
for call in range(31, 36):
    frugal_alloc.sleep("graphs")
    set_faults(f"driver.context@{call}+=unknown,driver.unmap@1+=unknown".encode())
    try:
        frugal_alloc.wake("graphs")
    except frugal_alloc.FrugalAllocError as error:
        stuck += "a part sleeps or wakes all the same" in str(error)
    set_faults(b"")
    if call % 2:
        frugal_alloc.sleep("graphs")
    frugal_alloc.wake("graphs")
    if not same():
        lost.append(call)
        first.replay()
report(stuck=stuck, lost=lost)
""",
    )
    assert result["stuck"] > 0 and result["lost"] == []


SLEEPS_STILL = "memory that this CUDA graph may read sleeps: call frugal_alloc.wake() before it is replayed"


def test_a_replay_that_may_read_what_sleeps_is_an_error_and_another_is_not():
    result = sleeping(
        "x = torch.zeros(3 * MIB, device='cuda')\nearlier, z = captured(lambda: x + 9)",
        """
frugal_alloc.retag(x, "inputs")
with frugal_alloc.tag("later"):
    graph, y = captured(lambda: x * 2)
last, w = captured(lambda: x * 3)  # it may have been given the workspaces that the graph before has
frugal_alloc.sleep("later")
new, v = captured(lambda: x * 4)
said = []
for one in (graph, last, new):
    try:
        one.replay()
    except RuntimeError as error:
        said.append(str(error))
x.fill_(1)
earlier.replay()
report(said=said, z=z[:2].tolist())
frugal_alloc.wake()
for one in (graph, last, new):
    one.replay()
report(values=[one[0].item() for one in (y, w, v)])
""",
        has_turns=False,
    )
    assert result["said"] == [SLEEPS_STILL] * 3
    assert (result["z"], result["values"]) == ([10.0, 10.0], [2.0, 3.0, 4.0])


def test_a_checkpoint_of_a_pool_that_sleeps_is_refused_and_nothing_is_lost():
    result = sleeping(
        ONE,
        """
state = torch._C._cuda_getCheckpointState(0, graph.pool())
frugal_alloc.sleep("graphs")
try:
    torch._C._cuda_setCheckpointPoolState(0, state, [], [])
except RuntimeError as error:
    report(said=str(error))
frugal_alloc.wake()
report(same=same())
""",
    )
    assert "the memory of these CUDA graphs sleeps: call frugal_alloc.wake()" in result["said"] and result["same"]


def test_a_tensor_of_a_pool_says_the_tag_that_wakes_it():
    result = sleeping(
        "x = torch.zeros(3 * MIB, device='cuda')",
        """
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph), frugal_alloc.tag("inside"):
    y = x + 1
with frugal_alloc.tag("outer"), torch.cuda.graph(torch.cuda.CUDAGraph(), pool=graph.pool()):
    z = x + 2
report(slept=frugal_alloc.sleep("inside").slept_bytes)
frugal_alloc.sleep("outer")
try:
    y.sum()
except RuntimeError as error:
    report(said=str(error))
frugal_alloc.wake("outer")
report(asleep=frugal_alloc.asleep())
""",
        has_turns=False,
    )
    assert result["slept"] == 0 and "wake('outer')" in result["said"] and result["asleep"] == {}


def test_what_graphs_read_is_not_moved_to_be_shared():
    result = sleeping(
        ONE,
        """
try:
    y.untyped_storage()._share_cuda_()
except RuntimeError as error:
    report(said=str(error))
report(same=same())
""",
    )
    assert "share a clone() of the tensor, or set pools:segments" in result["said"] and result["same"]


def test_what_nccl_may_have_registered_stays_awake_and_the_error_says_why():
    result = sleeping(
        ONE,
        """
from unittest import mock
other = torch.zeros(MIB, device="cuda")
frugal_alloc.retag(other, "weights")
import torch.distributed.distributed_c10d as c10d
groups = {1: "cpu:gloo", 2: "cuda:nccl"}
with (
    mock.patch("torch.distributed.is_initialized", return_value=True),
    mock.patch("torch.distributed.get_world_size", return_value=2),
    mock.patch.object(type(c10d._world), "pg_backend_config", groups),
):
    for tags in ("graphs", None):
        try:
            frugal_alloc.sleep(tags)
        except frugal_alloc.FrugalAllocError as error:
            report(said=str(error), asleep=frugal_alloc.asleep())
    report(weights=frugal_alloc.sleep("weights").slept_bytes)
    import os
    os.environ["NCCL_GRAPH_REGISTER"] = "0"
    report(graphs=frugal_alloc.sleep("graphs").slept_bytes)
frugal_alloc.wake()
report(same=same())
""",
    )
    assert result["said"].startswith("memory of CUDA graphs cannot sleep while NCCL may have registered it: set NCCL_")
    assert result["asleep"] == {} and result["weights"] > 0 and result["graphs"] > 0 and result["same"]


def test_a_graph_that_is_reset_while_it_sleeps_gives_back_its_addresses():
    result = sleeping(
        ONE,
        """
frugal_alloc.retag(x, "inputs")
frugal_alloc.sleep("graphs")
del y, turn
graph.reset()
asleep, woken = frugal_alloc.asleep(), frugal_alloc.wake()
graph, y = captured(lambda: x * 2)
graph.replay()
report(woken=woken, y=y[:1].tolist(), asleep=asleep)
""",
        is_forked=False,  # whose globals are seen twice
    )
    # Its random numbers' state is a tensor that others may hold.
    assert result["woken"] <= 1024 and sum(result["asleep"].values()) <= 1024, result
    assert result["y"] == [6.0]

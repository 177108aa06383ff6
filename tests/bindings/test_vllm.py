"""vLLM's sleep mode on frugal_alloc, with stand-ins of the modules of vLLM that it touches.

The first half asks for what vLLM's tests of its own allocator ask for (tests/basic_correctness/test_cumem.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from binding_helpers import MIB, run_python, run_well

HERE = Path(__file__).parent
PLUGIN = "frugal_alloc.integrations.vllm:register"
START = f"""
import sys
sys.path.append({str(HERE / "libraries" / "site-packages")!r})
import torch, frugal_alloc
from importlib.metadata import EntryPoint
MIB = 1 << 20

def load_plugins():
    EntryPoint("frugal_alloc", {PLUGIN!r}, "vllm.general_plugins").load()()

def free():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]
"""
OURS = (
    START
    + """
frugal_alloc.enable()
load_plugins()
load_plugins()
from vllm.device_allocator import get_mem_allocator_instance
from vllm.v1.worker.gpu_worker import Worker
allocator = get_mem_allocator_instance()
"""
)
WORKER = (
    OURS
    + """
def started(backend="frugal_alloc"):
    worker = Worker(backend)
    worker.load_model()
    worker.initialize_kv_cache()
    worker.capture_model()
    return worker
"""
)


def run(code: str, **environment: str | None) -> dict:
    return run_well(OURS + code, **environment)


# --- As vLLM's allocator


def test_mapped_pools_of_graphs_sleep_with_all_tags_and_wake_with_any():
    result = run(
        """
with allocator.use_memory_pool(tag="weights"):
    weight = torch.eye(1024, device="cuda")
x = torch.zeros(1024, 1024, device="cuda")
graph = torch.cuda.CUDAGraph()
with allocator.use_cudagraph_pool() as pool, torch.cuda.graph(graph, pool=pool):
    y = (x @ weight) + 1
before = free()
allocator.sleep(())
freed = free() - before
allocator.wake_up(["weights"])
weight.copy_(torch.eye(1024))
x.fill_(3)
graph.replay()
report(y=y[0, :2].tolist(), freed=freed)
""",
        FRUGAL_ALLOC_CONF="pools:mapped",
    )
    assert result["y"] == [4.0, 4.0] and result["freed"] >= 12 * MIB


@pytest.mark.parametrize("backend", ["frugal_alloc", "cumem"])
def test_a_worker_gives_the_same_tokens_after_it_has_slept(backend):
    result = run_well(
        WORKER
        + f"""
worker = started({backend!r})
expected, freed, got = worker.execute_model(1), [], []
usage = allocator.get_current_usage()
for _ in range(3):
    with worker.asleep() as bytes_freed:
        freed.append(bytes_freed)
        other = torch.ones(32 * MIB, device="cuda")
        del other
    got.append(worker.execute_model(1) == expected)
report(got=got, freed=freed, usage=usage, allocator=type(allocator).__module__)
"""
    )
    assert result["allocator"] == "frugal_alloc.integrations.vllm"
    # What quantization freed is no more used.
    assert result["usage"] == 2 * 16 * MIB
    assert result["got"] == [True] * 3
    assert min(result["freed"]) >= 28 * MIB


# --- As a backend


def test_levels_and_tags_say_what_is_copied_and_what_wakes():
    result = run_well(
        WORKER
        + """
worker = started()
backend, steps = worker.backend, []

def step(call, *arguments):
    getattr(backend, call)(*arguments)
    steps.append([backend.state(), sorted(allocator.asleep())])

expected = worker.execute_model(2)
step("discard", ("kv_cache",))
step("suspend", 1)
step("suspend", 2)
step("resume", ["weights"])
step("resume")
report(kept=worker.execute_model(2) == expected)
step("suspend", 2)
step("resume", None)
worker.weight.fill_(1)
report(steps=steps, usable=worker.execute_model(2)[0] == worker.prompt[0].sum().item() * worker.size)
report(says=[backend.preserves_communicators(), backend.preserves_compiled_artifacts()])
"""
    )
    both = ["SUSPENDED", ["kv_cache", "weights"]]
    only_cache, awake = ["SUSPENDED", ["kv_cache"]], ["RUNNING", []]
    assert result["steps"] == [only_cache, both, both, only_cache, awake, both, awake]
    assert (result["kept"], result["usable"], result["says"]) == (True, True, [True, True])


def test_host_memory_and_poison_follow_vllms_variables():
    result = run_well(
        WORKER
        + """
worker = started()
asked = []
sleep = frugal_alloc.sleep
frugal_alloc.sleep = lambda *given, **named: asked.append([named["host"], named["check"]]) or sleep(*given, **named)
with worker.asleep(level=2):
    pass
report(asked=asked, poisoned=bool(worker.weight.isnan().all()))
""",
        VLLM_SLEEP_MODE_RELEASE_HOST_MEMORY="1",
        VLLM_POISON_DISCARDED_PAGES="1",
    )
    assert (result["asked"], result["poisoned"]) == ([["pageable", "poison"]], True)


def test_what_registered_the_memory_is_told_before_it_goes_and_once_it_is_back():
    result = run_well(
        WORKER
        + """
from vllm.device_allocator import register_tag_hooks
worker = started()
told = []
register_tag_hooks("kv_cache", lambda: told.append("goes"), lambda: told.append("is back"))
worker.sleep()
worker.wake_up(["weights"])
report(between=list(told))
worker.wake_up(["kv_cache"])
report(told=told)
"""
    )
    assert (result["between"], result["told"]) == (["goes"], ["goes", "is back"])


def test_one_process_has_one_instance():
    result = run_python(WORKER + "worker = started()\nstarted()", is_forked=False)
    assert result["stderr"].splitlines()[-1] == "AssertionError: one instance for each process"


# --- Where it is in the way of nobody


def test_without_frugal_alloc_vllm_has_its_own_and_the_backend_is_refused():
    result = run_well(
        START
        + """
import vllm.v1.worker.gpu_worker as worker
load_plugins()
from vllm.device_allocator import get_mem_allocator_instance as asked
report(found=[type(one()).__name__ for one in (asked, worker.get_mem_allocator_instance)])
frugal_alloc.enable()
report(later=type(asked()).__name__)
from frugal_alloc.integrations.vllm import FrugalAllocBackend
frugal_alloc.disable()
try:
    worker.Worker("frugal_alloc")
except ValueError as error:
    report(refused=str(error))
"""
    )
    assert result["found"] == ["CuMemAllocator", "CuMemAllocator"]
    # What one has put to sleep the other cannot wake.
    assert result["later"] == "CuMemAllocator"
    assert result["refused"] == "frugal_alloc is not supported"


def test_a_vllm_without_backends_is_left_as_it_is():
    result = run_well(
        START
        + """
import vllm.device_allocator as asked
sys.modules["vllm.device_allocator.sleep_mode_backend"] = None
del asked.get_mem_allocator_instance
frugal_alloc.enable()
load_plugins()
report(has_function=hasattr(asked, "get_mem_allocator_instance"))
"""
    )
    assert result["has_function"] is False

"""The switches by which programs get memory that others can open: expandable_segments, cuda_malloc(), all-reduces."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from all_reduce_pair import MOMENTS, STATES, VLLM
from binding_helpers import GIB, MIB, run_python, run_well, simulated_gpu

HERE = str(Path(__file__).parent)

START = """
import contextlib, ctypes, os, threading, torch, frugal_alloc
tell = torch.cuda.memory._set_allocator_settings
MIB = 1 << 20

def empty(size=3 * MIB):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

def is_mapped(tensor):
    return any(
        s["is_expandable"] and 0 <= tensor.data_ptr() - s["address"] < s["total_size"]
        for s in torch.cuda.memory_snapshot()
    )

def shown():
    return torch.cuda.memory._snapshot()["allocator_settings"]

def others_can_open(tensor):
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    base, handle = ctypes.c_uint64(), (ctypes.c_char * 64)()
    ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute(ctypes.byref(base), 11, ctypes.c_uint64(tensor.data_ptr()))
    error = runtime.cudaIpcGetMemHandle(ctypes.byref(handle), ctypes.c_void_p(base.value))
    runtime.cudaGetLastError()
    return error == 0

frugal_alloc.enable()
"""


def run(code: str, **environment: str | None) -> dict:
    return run_well(START + code, **environment)


# --- PyTorch's setting expandable_segments


@pytest.mark.parametrize(
    ("code", "environment", "says"),
    [
        ("", {}, True),
        ("empty()", {}, True),
        ("frugal_alloc._native.load().enable('remap:off'); empty()", {}, True),
        ("", {"PYTORCH_ALLOC_CONF": "expandable_segments:False"}, True),
        pytest.param("empty()", {"FRUGAL_SIM_VMM": "0"}, False, marks=simulated_gpu),
        ("frugal_alloc.disable()", {}, False),
        ("", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, False),
        ("tell('expandable_segments:False')", {}, False),
        ("tell('expandable_segments:False'); frugal_alloc.disable(); frugal_alloc.enable()", {}, False),
        ("tell('expandable_segments:False'); tell('expandable_segments:True')", {}, True),
        ("frugal_alloc.cuda_malloc().__enter__()", {}, False),
    ],
)
def test_snapshots_say_that_segments_are_expandable_while_new_memory_is_mapped(code, environment, says):
    result = run(f"{code}\nreport(shown=shown(), mapped=is_mapped(empty()))", **environment)
    assert result["shown"]["expandable_segments"] is says
    if "FRUGAL_SIM_VMM" not in environment:
        assert result["mapped"] is says


@pytest.mark.parametrize(
    ("texts", "mapped"),
    [
        (["expandable_segments:False"], False),
        (["max_split_size_mb:64, expandable_segments : False,roundup_power2_divisions:[64:8,>:1]"], False),
        (["expandable_segments:False", "max_split_size_mb:64"], False),
        (["expandable_segments:False", "expandable_segments:True"], True),
        (["max_split_size_mb:64"], True),
        (["expandable_segments:True"], True),
        (["expandable_segments:no"], True),
    ],
    ids=lambda value: " then ".join(value) if isinstance(value, list) else "",
)
def test_memory_is_mapped_until_the_program_turns_it_off_and_from_when_it_turns_it_on(texts, mapped):
    result = run(
        f"""
for text in {texts}:
    with contextlib.suppress(RuntimeError, ValueError):
        tell(text)
tensor = empty()
report(mapped=is_mapped(tensor), open=others_can_open(tensor))
"""
    )
    assert (result["mapped"], result["open"]) == (mapped, not mapped)


@pytest.mark.parametrize(
    "setter", ["_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"]
)
def test_each_of_pytorchs_functions_turns_it_off(setter):
    if not hasattr(torch._C, setter):
        pytest.skip("this torch has no such function")
    assert run(f"torch._C.{setter}('expandable_segments:False'); report(mapped=is_mapped(empty()))")["mapped"] is False


@pytest.mark.parametrize(
    "before",
    ["", "expandable_segments:False", "expandable_segments:True", "max_split_size_mb:64", "max_split_size_mb:64, "],
)
def test_what_a_program_has_read_turns_it_on_again(before):
    # vLLM's non_expandable_allocations(): it leaves the allocator alone where the setting is off already.
    result = run(
        """
def conf():
    return shown()["PYTORCH_CUDA_ALLOC_CONF"]

def with_flag(conf, value):
    fields = [field for field in map(str.strip, conf.split(",")) if field and "expandable_segments" not in field]
    return ",".join([*fields, f"expandable_segments:{value}"])

read = conf()
assert "expandable_segments:True" in read.split(","), read
tell(with_flag(read, False))
report(turned_off=not shown()["expandable_segments"], inside=is_mapped(empty()))
tell(read)
report(after=is_mapped(empty()), shown=shown())
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = empty()
report(graph=others_can_open(captured))
""",
        PYTORCH_CUDA_ALLOC_CONF=before or None,
    )
    assert (result["turned_off"], result["inside"], result["after"]) == (True, False, True)
    assert result["shown"]["max_split_size"] == (64 * MIB if "64" in before else -1)
    assert result["graph"], "whatever is said"


def test_pytorchs_own_setting_is_the_programs_while_disabled():
    result = run(
        """
frugal_alloc.disable()
tell("expandable_segments:True")
report(on=others_can_open(empty()))
tell("expandable_segments:False")
report(off=others_can_open(empty()))
"""
    )
    assert (result["on"], result["off"]) == (False, True)


def test_settings_are_told_as_the_snapshot_has_them():
    # torch 2.12 and newer have this function; an older one is given it.
    result = run_well(
        """
import torch
if not hasattr(torch._C, "_accelerator_getAllocatorSettings"):
    torch._C._accelerator_getAllocatorSettings = lambda: "max_split_size_mb:64"
"""
        + START
        + """
torch.cuda.memory._set_allocator_settings("max_split_size_mb:64")
report(told=torch._C._accelerator_getAllocatorSettings(), shown=shown()["PYTORCH_CUDA_ALLOC_CONF"])
"""
    )
    assert result["told"] == result["shown"] == "max_split_size_mb:64,expandable_segments:True"


def test_tensors_of_both_kinds_live_across_switches_and_a_step():
    # As SkyRL and verl do it around the synchronisation of weights.
    result = run(
        """
model = torch.nn.Linear(512, 512, device="cuda")
before = torch.cuda.memory_allocated()
held = []
for step in range(3):
    loss = model(torch.ones(64, 512, device="cuda")).sum()
    tell("expandable_segments:False")
    loss.backward()
    bucket = torch.empty_like(model.weight).copy_(model.weight.detach())
    assert others_can_open(bucket) and torch.equal(bucket.cpu(), model.weight.cpu())
    held.append(bucket)
    tell("expandable_segments:True")
    held.append(empty())
    model.zero_grad(set_to_none=step < 2)
    del loss, bucket
kinds = list(map(is_mapped, held))
report(kinds=kinds, peak=torch.cuda.max_memory_allocated(), allocated=torch.cuda.memory_allocated())
held.clear()
model.zero_grad()
torch._C._cuda_clearCublasWorkspaces()
torch.cuda.empty_cache()
report(left=torch.cuda.memory_allocated() - before, reserved=torch.cuda.memory_reserved())
"""
    )
    assert result["kinds"] == [False, True] * 3
    assert result["peak"] >= result["allocated"]
    assert (result["left"], result["reserved"]) == (0, 4 * MIB)


def test_a_program_that_turns_it_off_is_told_once_what_that_does():
    result = run(
        """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", RuntimeWarning)
    for value in (True, False, True, False):
        tell(f"expandable_segments:{value}")
report(warnings=[str(w.message) for w in caught if w.category is RuntimeWarning])
"""
    )
    (warning,) = result["warnings"]
    assert "all new memory is cudaMalloc's" in warning
    assert "until the program sets expandable_segments:True" in warning


def test_statistics_count_both_kinds_together():
    result = run(
        """
def peak():
    return torch.cuda.max_memory_allocated() // MIB

first = empty(100 * MIB)
with frugal_alloc.cuda_malloc():
    second = empty(50 * MIB)
report(both=peak())
del second
third = empty(20 * MIB)
report(still=peak())
with frugal_alloc.cuda_malloc():
    fourth = empty(40 * MIB)
report(then=peak(), allocated=torch.cuda.memory_allocated() // MIB)
"""
    )
    assert result["both"] == result["still"] == 150
    assert result["then"] == result["allocated"] == 160


def test_requests_are_served_from_idle_memory_of_ours_and_within_the_limit():
    result = run(
        f"""
def allocates(size):
    try:
        return empty(size) is not None
    except torch.OutOfMemoryError:
        return False

frugal_alloc.enable(memory_limit={4 * GIB})
idle = empty({3 * GIB})
del idle
tell("expandable_segments:False")
report(served=allocates({3 * GIB}), over=allocates({4 * GIB + MIB}))
tell("expandable_segments:True")
report(ours_again=allocates({3 * GIB}))
"""
    )
    assert (result["served"], result["over"], result["ours_again"]) == (True, False, True)


def test_a_child_by_fork_goes_on_as_its_parent_does():
    result = run(
        """
import multiprocessing
def work():
    return is_mapped(empty())
fork = multiprocessing.get_context("fork")
tell("expandable_segments:False")
with fork.Pool(1) as pool:
    report(off=pool.apply(work))
tell("expandable_segments:True")
with frugal_alloc.cuda_malloc(), fork.Pool(1) as pool:
    report(inside=pool.apply(work))
with fork.Pool(1) as pool:
    report(on=pool.apply(work))
"""
    )
    assert (result["off"], result["on"]) == (False, True)


# --- cuda_malloc()


def test_cuda_malloc_is_for_its_own_thread_and_may_be_nested():
    result = run(
        """
@frugal_alloc.cuda_malloc()
def allocate(depth=0):
    return allocate(depth - 1) if depth else is_mapped(empty())

def in_another_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(is_mapped(empty())))
    thread.start()
    thread.join()
    return seen[0]

before = is_mapped(empty())
with frugal_alloc.cuda_malloc() as outer:
    with frugal_alloc.cuda_malloc():
        inner = is_mapped(empty())
    still, other = is_mapped(empty()), in_another_thread()
    with contextlib.suppress(KeyError), frugal_alloc.cuda_malloc():
        raise KeyError
    kept = is_mapped(empty())
report(mapped=[before, inner, still, other, kept, is_mapped(empty()), allocate(2), is_mapped(empty())])
"""
    )
    assert result["mapped"] == [True, False, False, True, False, True, False, True]


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("inside", ["", "True", "False"])
def test_cuda_malloc_gives_no_expandable_segments_and_does_nothing_while_disabled(is_on, inside):
    result = run(
        f"""
pool = torch.cuda.MemPool()
if not {is_on}:
    frugal_alloc.disable()
with frugal_alloc.cuda_malloc():
    if {inside!r}:
        tell("max_split_size_mb:64,expandable_segments:{inside}")
    ordinary = others_can_open(empty())
    with torch.cuda.use_mem_pool(pool):
        pooled = others_can_open(empty())
report(inside=[ordinary, pooled], shown=shown())
frugal_alloc.disable()
torch.cuda.empty_cache()
report(after=others_can_open(empty()))
""",
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True,max_split_size_mb:64",
    )
    assert result["inside"] == [is_on or inside == "False"] * 2
    assert result["shown"]["max_split_size"] == 64 * MIB, "nothing else has changed"
    # What the program has said inside holds from then on.
    assert result["after"] == (inside == "False")


def test_cuda_malloc_does_nothing_before_enabling():
    result = run_well(
        """
import frugal_alloc, torch
with frugal_alloc.cuda_malloc():
    tensor = torch.empty(9, device="cuda")
    frugal_alloc.enable()
ours = torch.empty(9, device="cuda")
report(mapped=[s["is_expandable"] for s in torch.cuda.memory_snapshot()])
"""
    )
    assert result["mapped"] == [False, True]


def test_registering_in_one_handle_is_refused_of_ours_and_served_in_cuda_malloc():
    # What Mooncake, NIXL or NVSHMEM do that take the handle at an address for the whole tensor.
    result = run(
        """
def is_one_handle(tensor):
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    pointer = ctypes.c_uint64(tensor.data_ptr())
    assert ctypes.CDLL("libcuda.so.1").cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), pointer) == 0
    return tensor.data_ptr() + tensor.nbytes <= base.value + size.value

ours = is_one_handle(empty(100 * MIB))
with frugal_alloc.cuda_malloc():
    theirs = is_one_handle(empty(100 * MIB))
report(one_handle=[ours, theirs])
"""
    )
    assert result["one_handle"] == [False, True]


# --- Custom all-reduces, by state of the allocator


def run_pair(state: str, moment: str, module: str = VLLM) -> dict:
    environment = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if "expandable" in state else {}
    code = f"import sys; sys.path.insert(0, {HERE!r}); import all_reduce_pair\n"
    return run_python(code + f"report(**all_reduce_pair.run_pair({state!r}, {module!r}, {moment!r}))", **environment)


# CUDACHECK ends the process where cudaIpcGetMemHandle refuses memory.
REFUSED = {("PyTorch's expandable", moment) for moment in MOMENTS[1:]} | {
    (state, "a tensor itself") for state in STATES[2:4]
}
COPIED = {(state, "older than the capture") for state in STATES[2:4]}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("state", STATES)
def test_ranks_of_a_custom_all_reduce_see_each_others_input(state, moment):
    result = run_pair(state, moment)
    if (state, moment) in REFUSED:
        assert result["exits"] == [1, 1]
        return
    assert result["exits"] == [0, 0], result["stderr"]
    assert [seen["same"] for seen in result["seen"]] == [True, True]
    copies = [len(seen["warnings"]) for seen in result["seen"]]
    assert copies == ([1, 1] if (state, moment) in COPIED else [0, 0])


def test_classes_that_were_imported_before_are_seen_to_once():
    result = run_well(
        f"""
import sys
sys.path.append({HERE!r} + "/libraries/site-packages")
from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce
"""
        + START
        + """
first = CustomAllreduce.custom_all_reduce
frugal_alloc.disable()
frugal_alloc.enable()
report(wrapped=hasattr(first, "__wrapped__"), once=CustomAllreduce.custom_all_reduce is first)
"""
    )
    assert (result["wrapped"], result["once"]) == (True, True)


@pytest.mark.parametrize("module", ["custom_all_reduce", "custom_all_reduce_v2"])
def test_inputs_of_sglangs_all_reduces_are_copied_too(module):
    result = run_pair("ours", "older than the capture", f"sglang.srt.distributed.device_communicators.{module}")
    assert result["exits"] == [0, 0], result["stderr"]
    assert all(seen["same"] and "frugal_alloc.cuda_malloc()" in seen["warnings"][0] for seen in result["seen"])


def test_an_all_reduce_that_is_left_to_nccl_is_not_copied():
    result = run(
        f"""
import sys
sys.path.append({HERE!r} + "/libraries/site-packages")
from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce
older, communicator = empty(16 * MIB), object.__new__(CustomAllreduce)
communicator._IS_CAPTURING = True
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    before = torch.cuda.memory_allocated()
    assert communicator.custom_all_reduce(older) is None
    report(taken=torch.cuda.memory_allocated() - before)
"""
    )
    assert result["taken"] == 0

"""Settings of ours, and what a program told PyTorch's allocator before."""

from pathlib import Path

import pytest
from binding_helpers import GIB, MIB, run_python, run_well, simulated_gpu
from frugal_alloc._common.messages import format_bytes as size

HERE = str(Path(__file__).parent)

WARN = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch, frugal_alloc
    frugal_alloc.enable()
    frugal_alloc.disable()
    frugal_alloc.enable()
    {during}
report(warnings=[str(w.message) for w in caught if w.category is RuntimeWarning])
tensor = torch.empty(1 << 20, device="cuda")
report(ours=frugal_alloc._native.load().owns(tensor.data_ptr()))
"""

TRY_TO_ALLOCATE = """
def allocates(size):
    global error
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as out_of_memory:
        error = str(out_of_memory)
        return False
    return True
"""


# --- PyTorch's


UNFOLLOWED = "garbage_collection_threshold:0.9, max_split_size_mb:128"
FOLLOWED = (
    "pinned_num_register_threads:2,roundup_power2_divisions:[64:8,>:1],expandable_segments:True,"
    "release_lock_on_cudamalloc:False,per_process_memory_fraction:0.5"
)
REASON = "garbage_collection_threshold (free memory is used again wherever it lies; idle_release gives it back), max_"
CHANGE = "torch._C._accelerator_setAllocatorSettings('expandable_segments:True,max_split_size_mb:64')"


@pytest.mark.parametrize(
    ("during", "environment", "named"),
    [
        ("", {"PYTORCH_ALLOC_CONF": UNFOLLOWED}, [REASON]),
        ("", {"PYTORCH_CUDA_ALLOC_CONF": UNFOLLOWED}, [REASON]),
        ("", {"PYTORCH_ALLOC_CONF": FOLLOWED}, []),
        ("", {"PYTORCH_ALLOC_CONF": None}, []),
        (f"{CHANGE}; {CHANGE}", {}, ["max_split_size_mb ("]),
    ],
    ids=["in the environment", "by its older name", "followed", "none", "in the middle of a run"],
)
def test_settings_that_are_not_followed_are_named_in_one_warning_with_the_reason(during, environment, named):
    result = run_python(WARN.format(during=during), **environment)
    assert len(result["warnings"]) == len(named)
    assert all(part in warning for warning, part in zip(result["warnings"], named, strict=True))
    assert result["ours"]


def test_sizes_are_rounded_as_pytorch_was_told_at_any_time():
    result = run_python(
        """
import torch, frugal_alloc
frugal_alloc.enable()

def sizes(settings, *requests):
    torch._C._accelerator_setAllocatorSettings(settings)
    taken = []
    for request in requests:
        torch.cuda.reset_accumulated_memory_stats()
        tensor = torch.empty(request, dtype=torch.uint8, device="cuda")
        stats = torch.cuda.memory_stats()
        taken.append(stats["active_bytes.all.allocated"])
        assert stats["requested_bytes.all.allocated"] == request
    return taken

mib = 1 << 20
report(four=sizes("roundup_power2_divisions:4", 84 * mib, 64 * mib, 2048, 2049),
       mixed=sizes("roundup_power2_divisions:[64:8,128:2,>:1]", 84 * mib, 200 * mib, 300 * mib),
       none=sizes("", 84 * mib))
"""
    )
    assert result["status"] == 0, result["stderr"]
    # 84 MiB lies between 64 and 128: in four steps 80, 96; in eight 72, 80, 88.
    assert result["four"] == [96 * MIB, 64 * MIB, 2048, 2560]
    assert result["mixed"] == [88 * MIB, 256 * MIB, 300 * MIB]
    assert result["none"] == [84 * MIB]


@pytest.mark.parametrize("moment", ["before", "after", "environment"])
def test_memory_fraction_goes_on_to_hold_whenever_it_was_set(moment):
    set_fraction = "torch.cuda.set_per_process_memory_fraction(0.25)\n"
    result = run_python(
        "import torch, frugal_alloc\n"
        + TRY_TO_ALLOCATE
        + (set_fraction if moment == "before" else "")
        + "frugal_alloc.enable()\n"
        + (set_fraction if moment == "after" else "")
        + """
total = torch.cuda.get_device_properties(0).total_memory
report(half=allocates(total // 2), error=error, eighth=allocates(total // 8))
report(fraction=torch.cuda.get_per_process_memory_fraction())
""",
        PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.25" if moment == "environment" else None,
    )
    assert (result["half"], result["eighth"], result["fraction"], result["status"]) == (False, True, 0.25, 0)
    assert "torch.cuda.set_per_process_memory_fraction" in result["error"]


# --- ours


def test_memory_limit_caps_ours_and_natives_memory_together():
    result = run_well(
        f"""
import torch, frugal_alloc
{TRY_TO_ALLOCATE}
older = torch.empty({GIB}, dtype=torch.uint8, device="cuda")
frugal_alloc.enable(memory_limit="3GiB")
report(over=allocates({2 * GIB + 2 * MIB}), error=error, within=allocates({2 * GIB}))
newer = torch.empty({3 * GIB // 2}, dtype=torch.uint8, device="cuda")
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    report(pool_over=allocates({GIB}), pool_within=allocates({GIB // 4}))
frugal_alloc.enable(memory_limit="off")
report(lifted=allocates({4 * GIB}), fraction=torch.cuda.get_per_process_memory_fraction())
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    report(pool_lifted=allocates({4 * GIB}))
"""
    )
    assert (result["over"], result["within"]) == (False, True)
    assert (result["pool_over"], result["pool_within"]) == (False, True)
    assert (result["lifted"], result["pool_lifted"], result["fraction"]) == (True, True, 1.0)
    assert "This process may hold 3.00 GiB of it (frugal_alloc's memory_limit)" in result["error"]


def test_the_smaller_of_limit_and_fraction_holds_and_is_named():
    result = run_python(
        f"""
import torch, frugal_alloc
{TRY_TO_ALLOCATE}
frugal_alloc.enable(memory_limit="25%")
torch.cuda.set_per_process_memory_fraction(0.5)
total = torch.cuda.get_device_properties(0).total_memory
report(total=total, over_limit=allocates(total // 4 + {64 * MIB}), limit=error)
frugal_alloc.enable(memory_limit="75%")
report(within=allocates(total // 4 + {64 * MIB}))
report(over_fraction=allocates(total // 2 + {64 * MIB}), fraction=error,
       pytorchs=torch.cuda.get_per_process_memory_fraction())
"""
    )
    assert (result["over_limit"], result["within"], result["over_fraction"]) == (False, True, False)
    assert f"{size(result['total'] // 4)} of it (frugal_alloc's memory_limit)" in result["limit"]
    assert f"{size(result['total'] // 2)} of it (torch.cuda.set_per_process_memory_fraction)" in result["fraction"]
    assert result["pytorchs"] == 0.5


def test_arguments_go_before_the_environment_and_change_what_they_name_only():
    result = run_well(
        """
import frugal_alloc
frugal_alloc.enable(memory_limit=123456789)
library = frugal_alloc._native.load()
report(first=library.settings())
frugal_alloc.enable(idle_release=2.5)
report(second=library.settings())
frugal_alloc.disable()
frugal_alloc.enable(idle_release="off")
report(third=library.settings())
""",
        FRUGAL_ALLOC_CONF="memory_limit:1GiB,idle_release:10min",
    )
    assert result["first"] == "memory_limit:123456789,idle_release:600s,track:on,publish:on,self_check:fast,remap:on"
    assert result["second"] == "memory_limit:123456789,idle_release:2.5s,track:on,publish:on,self_check:fast,remap:on"
    assert result["third"] == "memory_limit:123456789,idle_release:off,track:on,publish:on,self_check:fast,remap:on"


NOT_POSSIBLE = {
    "memory_limit='lots'": "memory_limit:lots is not possible; memory_limit is a size",
    "memory_limit='1GiB,idle_release:1s'": "is not possible; memory_limit is bytes or a text",
    "idle_release=-1": "idle_release:-1s is not possible; idle_release is a time",
    "publish=0": "publish=0 is not possible",
}
IN_THE_ENVIRONMENT = {
    "remap:never": "remap:never is not possible; remap is on or off",
    "host_reserve:5%": "host_reserve:5% is not possible; host_reserve is a size (8GiB, 512MiB, bytes), or off",
    "driver_costs:/nowhere/costs": "driver_costs:/nowhere/costs is not possible: No such file or directory; name a",
    "driver_costs:/dev/zero": "driver_costs:/dev/zero is not possible: it is no file; name a",
}


def test_argument_that_is_not_possible_is_refused_and_pytorch_untouched():
    tries = "".join(f"refused({arguments})\n" for arguments in NOT_POSSIBLE)
    tries += "".join(f"os.environ['FRUGAL_ALLOC_CONF'] = {text!r}\nrefused()\n" for text in IN_THE_ENVIRONMENT)
    expected_errors = [*NOT_POSSIBLE.values(), *IN_THE_ENVIRONMENT.values()]
    result = run_python(
        f"""
import os
import frugal_alloc
errors = []
def refused(**settings):
    try:
        frugal_alloc.enable(**settings)
    except frugal_alloc.FrugalAllocError as error:
        errors.append(str(error))
{tries}
report(errors=errors, enabled=frugal_alloc.is_enabled())
"""
    )
    assert (len(result["errors"]), result["enabled"]) == (len(expected_errors), False)
    for error, expected in zip(result["errors"], expected_errors, strict=True):
        assert expected in error
        assert "\n" not in error


def test_costs_of_the_driver_are_read_once_and_kept_until_others_are_named(tmp_path):
    costs = tmp_path / "costs.txt"
    costs.write_text("map 3\n")
    result = run_well(
        f"""
import frugal_alloc, pathlib
from frugal_alloc import _native
frugal_alloc.enable()
pathlib.Path({str(costs)!r}).unlink()
frugal_alloc.enable(memory_limit="off")
report(settings=_native.load().settings())
try:
    _native.load().enable("driver_costs:{costs}x,remap:on")
except frugal_alloc.FrugalAllocError as error:
    report(error=str(error), after=_native.load().settings())
""",
        FRUGAL_ALLOC_CONF=f"driver_costs:{costs},driver_reserve:1GiB,host_reserve:8GiB,remap:off",
    )
    assert result["settings"].endswith(
        f"remap:off,driver_reserve:{1 << 30},host_reserve:{8 << 30},driver_costs:{costs}"
    )
    assert (result["after"], "No such file" in result["error"]) == (result["settings"], True)


@simulated_gpu
def test_idle_memory_goes_back_but_not_what_is_in_use_or_while_a_pool_is_open():
    result = run_well(
        f"""
import torch, frugal_alloc
import sys; sys.path.insert(0, {HERE!r})
from binding_helpers import Simulation
frugal_alloc.enable()
release_idle, simulation = frugal_alloc._native.load().release_idle, Simulation()
kept = torch.empty({64 * MIB}, dtype=torch.uint8, device="cuda")
idle = torch.empty({GIB}, dtype=torch.uint8, device="cuda")
release_idle()
del idle
torch.cuda.synchronize()
used, waits = simulation.memory_used(), simulation.calls("sync")
report(first=release_idle(), second=release_idle(), third=release_idle(), freed=used - simulation.memory_used(),
       waits=simulation.calls("sync") - waits)
torch.empty({GIB}, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
release_idle()
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(torch.cuda.Stream()):
    graph.capture_begin()
    report(during=release_idle())
    graph.capture_end()
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    report(after=release_idle())
"""
    )
    assert (result["first"], result["second"], result["third"]) == (0, GIB, 0)
    assert (result["freed"], result["waits"]) == (GIB, 0)
    assert (result["during"], result["after"]) == (0, GIB)


@simulated_gpu
def test_the_thread_of_idle_release_is_there_when_there_is_memory_and_none_without():
    result = run_python(
        """
import os, threading, torch, frugal_alloc

def threads():
    return len(os.listdir("/proc/self/task"))

torch.cuda.init()
frugal_alloc.enable(idle_release="1h", publish=False)
torch.empty(1)
before = threads()
tensor = torch.empty(1000, device="cuda")
report(added=threads() - before)
child = os.fork()
if child == 0:
    del tensor
    os._exit(5)
report(child=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert result["status"] == 0, result["stderr"]
    assert (result["added"], result["child"]) == (1, 5)


# --- history


@pytest.mark.parametrize("size", [7 << 20, 100])
def test_history_recorded_before_covers_our_memory(size):
    result = run_python(
        f"""
import torch, frugal_alloc
torch.cuda.memory._record_memory_history(max_entries=1000)
older = torch.empty({size}, dtype=torch.uint8, device="cuda")
frugal_alloc.enable()
newer = torch.empty({size}, dtype=torch.uint8, device="cuda")
trace = torch.cuda.memory._snapshot()["device_traces"][0]
for name, tensor in dict(older=older, newer=newer).items():
    entries = [e for e in trace if e["addr"] == tensor.data_ptr() and e["action"] == "alloc"]
    report(**{{name: bool(entries and entries[-1]["size"] == {size} and entries[-1]["frames"])}})
torch.cuda.memory._record_memory_history(None)
report(ended=not any(torch.cuda.memory._snapshot()["device_traces"]))
"""
    )
    assert (result["older"], result["newer"], result["ended"]) == (True, True, True)

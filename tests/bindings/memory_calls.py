"""Calls every function of torch.cuda.memory and torch.accelerator.memory; run as a program with "native" or "ours".

It prints a line of JSON: for each function what it returned or did, as far as that does not depend on the allocator
(``same``), and the keys and types of the rest (``shape``). test_same_as_native.py compares two runs.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.cuda import _memory_viz, memory

KIB, MIB = 1 << 10, 1 << 20

# Figures that say how the allocator got its memory, which is its own affair.
OWN = ("reserved_bytes", "segment", "inactive_split", "num_alloc_retries", "num_device_", "num_sync_all_streams")

SAME: dict[str, Any] = {}
SHAPE: dict[str, Any] = {}
CALLS: dict[str, Callable[[], None]] = {}


def call(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Marks what calls the functions `names`; those that this torch lacks are left out."""

    def mark(function: Callable[[], None]) -> Callable[[], None]:
        for name in names:
            CALLS[name] = function
        return function

    return mark


def empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): shape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kinds = {json.dumps(shape(item), sort_keys=True) for item in value}
        return [type(value).__name__, sorted(kinds)]
    return type(value).__name__


def shared_figures(stats: dict[str, Any]) -> dict[str, int]:
    """The figures of memory_stats() on which every allocator must agree."""
    return {name: value for name, value in stats.items() if not name.startswith(OWN)}


def failure_of(action: Callable[[], Any]) -> str:
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "no error"


@contextlib.contextmanager
def recording(*arguments: Any, **options: Any) -> Iterator[None]:
    memory._record_memory_history(*arguments, **options)
    try:
        yield
    finally:
        memory._record_memory_history(None)


def blocks_in_use(segments: list[dict]) -> list[list]:
    blocks = [block for segment in segments for block in segment["blocks"] if block["state"] != "inactive"]
    return sorted([block["size"], block["requested_size"], block["state"]] for block in blocks)


def trace_of_blocks(snapshot: dict) -> list[list]:
    """What was recorded of blocks: action, size, stream, metadata and the line of ours that did it."""
    noted = ("action", "size", "stream", "user_metadata", "compile_context")
    entries = [entry for entry in snapshot["device_traces"][0] if not entry["action"].startswith("segment")]
    return [[*(entry.get(key) for key in noted), our_line(entry)] for entry in entries]


def our_line(entry: dict) -> str | None:
    ours = [frame for frame in entry.get("frames", ()) if frame["filename"] == __file__]
    return f"{ours[0]['name']}:{ours[0]['line']}" if ours else None


# --- Figures


@call("memory_stats", "memory_stats_as_nested_dict", "accelerator.memory_stats")
def statistics() -> None:
    SAME["memory_stats"] = shared_figures(memory.memory_stats())
    SHAPE["memory_stats"] = shape(memory.memory_stats())
    SHAPE["memory_stats_as_nested_dict"] = shape(memory.memory_stats_as_nested_dict())
    SAME["accelerator.memory_stats"] = shared_figures(torch.accelerator.memory_stats())
    SHAPE["accelerator.memory_stats"] = shape(torch.accelerator.memory_stats())


@call("memory_allocated", "max_memory_allocated", "accelerator.memory_allocated", "accelerator.max_memory_allocated")
def allocated() -> None:
    more = [empty(size) for size in (1, 512, 700 * KIB, 5 * MIB + 1)]
    inside = memory.memory_allocated()
    del more
    figures = [inside, memory.memory_allocated(), memory.max_memory_allocated(), memory.memory_allocated(0)]
    figures += [torch.accelerator.memory_allocated(), torch.accelerator.max_memory_allocated()]
    SAME["memory_allocated"] = figures


@call("memory_reserved", "max_memory_reserved", "memory_cached", "max_memory_cached")
@call("accelerator.memory_reserved", "accelerator.max_memory_reserved")
def reserved() -> None:
    figures = [memory.memory_reserved(), memory.memory_cached(), torch.accelerator.memory_reserved()]
    peaks = [memory.max_memory_reserved(), memory.max_memory_cached(), torch.accelerator.max_memory_reserved()]
    SAME["memory_reserved"] = [len(set(figures)), len(set(peaks)), figures[0] <= peaks[0]]
    SAME["memory_reserved"] += [memory.memory_allocated() <= figures[0] <= memory.mem_get_info()[1]]


@call(
    "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats"
)
@call("accelerator.reset_peak_memory_stats", "accelerator.reset_accumulated_memory_stats")
def resets() -> None:
    for name in ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"):
        empty(30 * MIB)
        SAME[name] = [getattr(memory, name)(), memory.max_memory_allocated() - memory.memory_allocated()]
        SAME[name] += [memory.max_memory_reserved() - memory.memory_reserved()]
    empty(30 * MIB)
    SAME["accelerator.reset_peak"] = [torch.accelerator.reset_peak_memory_stats(), memory.max_memory_allocated()]
    for module in (memory, torch.accelerator):
        empty(3 * MIB)
        module.reset_accumulated_memory_stats()
        SAME[f"{module.__name__}.reset_accumulated_memory_stats"] = shared_figures(memory.memory_stats())


@call("memory_summary")
def summary() -> None:
    texts = [memory.memory_summary(), memory.memory_summary(abbreviated=True), memory.memory_summary(0)]
    SAME["memory_summary"] = [[line.split("|")[:2] for line in text.splitlines()] for text in texts]
    rows = [line for line in texts[0].splitlines() if line.startswith(("| Allocated memory", "| Active", "| Alloca"))]
    SAME["memory_summary rows"] = rows


@call("mem_get_info", "accelerator.get_memory_info", "list_gpu_processes")
def device_memory() -> None:
    free, total = memory.mem_get_info()
    SAME["mem_get_info"] = [type(free).__name__, total, memory.mem_get_info(0)[1], 0 < free < total]
    if hasattr(torch.accelerator, "get_memory_info"):
        SAME["accelerator.get_memory_info"] = torch.accelerator.get_memory_info() == memory.mem_get_info()
    SAME["list_gpu_processes"] = failure_of(lambda: print(memory.list_gpu_processes(), file=sys.stderr))


@call("host_memory_stats", "host_memory_stats_as_nested_dict", "_host_allocator")
@call("reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats", "accelerator.empty_host_cache")
def host_memory() -> None:
    pinned = torch.empty(3 * MIB, pin_memory=True)
    stats = memory.host_memory_stats()
    SAME["host_memory_stats"] = {name: value for name, value in stats.items() if "time" not in name}
    SHAPE["host_memory_stats"] = shape([stats, memory.host_memory_stats_as_nested_dict()])
    del pinned
    memory.reset_peak_host_memory_stats()
    memory.reset_accumulated_host_memory_stats()
    if hasattr(torch.accelerator, "empty_host_cache"):
        torch.accelerator.empty_host_cache()
    after = memory.host_memory_stats()
    SAME["host_memory_stats after resets"] = {name: value for name, value in after.items() if "time" not in name}
    SHAPE["_host_allocator"] = shape(memory._host_allocator())


# --- What changes memory


@call("empty_cache", "accelerator.empty_cache")
def caches() -> None:
    for module in (memory, torch.accelerator):
        module.empty_cache()
        before = memory.memory_reserved()
        empty(200 * MIB)
        grown = memory.memory_reserved()
        module.empty_cache()
        # Ours may have made a part of it from what was held beside memory in use.
        SAME[f"{module.__name__}.empty_cache"] = grown > before >= memory.memory_reserved()


@call("caching_allocator_alloc", "caching_allocator_delete")
def raw_memory() -> None:
    before = memory.memory_allocated()
    stream = torch.cuda.Stream()
    taken = [memory.caching_allocator_alloc(1000), memory.caching_allocator_alloc(3 * MIB, 0, stream)]
    taken += [memory.caching_allocator_alloc(7, torch.device("cuda:0"), stream.cuda_stream)]
    SAME["caching_allocator_alloc"] = memory.memory_allocated() - before
    for pointer in taken:
        memory.caching_allocator_delete(pointer)
    SAME["caching_allocator_delete"] = memory.memory_allocated() - before
    SAME["nothing"] = [memory.caching_allocator_alloc(0), memory.caching_allocator_delete(0)]
    SAME["wrong stream"] = failure_of(lambda: memory.caching_allocator_alloc(1, stream="main"))
    SAME["unknown pointer"] = failure_of(lambda: memory.caching_allocator_delete(512)).split(":")[0]


@call("caching_allocator_enable", "caching_allocator_disabled")
def uncached() -> None:
    before = shared_figures(memory.memory_stats())
    memory.caching_allocator_enable(False)
    tensor = empty(3 * MIB)
    SAME["uncached"] = shared_figures(memory.memory_stats()) == before
    del tensor
    memory.caching_allocator_enable(True)
    if hasattr(memory, "caching_allocator_disabled"):
        with memory.caching_allocator_disabled():
            tensor = empty(3 * MIB)
            SAME["caching_allocator_disabled"] = shared_figures(memory.memory_stats()) == before
            SAME["is enabled"] = torch._C._cuda_cudaCachingAllocator_is_enabled()
        del tensor


@call("set_per_process_memory_fraction", "get_per_process_memory_fraction")
def fraction() -> None:
    total = memory.mem_get_info()[1]
    SAME["fraction at first"] = memory.get_per_process_memory_fraction()
    memory.set_per_process_memory_fraction(0.25)
    SAME["get_per_process_memory_fraction"] = memory.get_per_process_memory_fraction(0)
    SAME["beyond the fraction"] = failure_of(lambda: empty(total // 2)).split(".")[0]
    held = empty(total // 8)
    memory.set_per_process_memory_fraction(1.0, "cuda:0")
    SAME["wrong fractions"] = [
        failure_of(lambda value=value: memory.set_per_process_memory_fraction(value)) for value in (2.0, -1.0, "all")
    ]
    del held


@call("MemPool", "use_mem_pool")
def pools() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        held = [empty(size) for size in (100, 3 * MIB)]
    outside = empty(3 * MIB)
    snapshot = pool.snapshot()
    SAME["MemPool"] = [pool.use_count(), pool.id[0], len(snapshot), blocks_in_use(snapshot)]
    SAME["MemPool"] += [memory.memory_snapshot(pool.id) == snapshot]
    SAME["MemPool.snapshot"] = sorted([s["total_size"], s["segment_type"], s["is_expandable"]] for s in snapshot)
    SHAPE["MemPool.snapshot"] = shape(snapshot)
    del held, outside


@call("get_allocator_backend", "CUDAPluggableAllocator", "change_current_allocator", "_CUDAAllocator")
@call("_get_current_allocator")
def allocators() -> None:
    SAME["get_allocator_backend"] = memory.get_allocator_backend()
    SAME["no such library"] = failure_of(lambda: memory.CUDAPluggableAllocator("/nowhere.so", "take", "give"))
    with open("/proc/self/maps") as maps:
        libc = next(line.split()[-1] for line in maps if "/libc.so" in line)
    pluggable = memory.CUDAPluggableAllocator(libc, "malloc", "free")
    SAME["change_current_allocator"] = failure_of(lambda: memory.change_current_allocator(pluggable))
    SHAPE["_get_current_allocator"] = shape([memory._get_current_allocator(), pluggable.allocator()])


@call("_set_allocator_settings")
def settings() -> None:
    SAME["_set_allocator_settings"] = failure_of(lambda: memory._set_allocator_settings("max_split_size_mb:100"))
    SAME["shown settings"] = memory._snapshot()["allocator_settings"]
    SAME["wrong settings"] = failure_of(lambda: memory._set_allocator_settings("max_split_size_mb:2"))
    memory._set_allocator_settings("max_split_size_mb:0" if torch.__version__ < "2.9" else "")
    SAME["settings as at first"] = memory._snapshot()["allocator_settings"]


# --- Snapshots and history


@call("memory_snapshot", "_snapshot", "_dump_snapshot", "_free_mutex", "accelerator._snapshot")
def snapshots() -> None:
    side = torch.cuda.Stream()
    with recording():
        held = [empty(size) for size in (100, 1000, 700 * KIB, 3 * MIB, 40 * MIB)]
        del held[1], held[2]
        with torch.cuda.stream(side):
            on_side = empty(2 * MIB)
        memory.memory_snapshot()
        with contextlib.suppress(torch.OutOfMemoryError):
            empty(1 << 44)
        taken = memory._snapshot()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "snapshot.pickle"
            memory._dump_snapshot(str(file))
            SAME["_dump_snapshot"] = file.stat().st_size > 0
    SAME["_snapshot traces"] = [row[:2] + row[3:] for row in trace_of_blocks(taken)]
    SAME["blocks in use"] = blocks_in_use(taken["segments"])
    SHAPE["_snapshot"] = shape({key: value for key, value in taken.items() if key not in ("segments", "device_traces")})
    blocks = [block for segment in taken["segments"] for block in segment["blocks"]]
    entries = [entry for entry in taken["device_traces"][0] if not entry["action"].startswith("segment")]
    frames = [frame for item in [*blocks, *entries] for frame in item.get("frames", ())]
    SHAPE["segments"] = [
        shape({key: s[key] for key in s if key not in ("blocks", "frames")}) for s in taken["segments"][:1]
    ]
    SHAPE["keys"] = [sorted({key for item in items for key in item}) for items in (taken["segments"], blocks, frames)]
    SHAPE["entries"] = {entry["action"]: sorted(entry) for entry in entries}
    SHAPE["accelerator._snapshot"] = (
        shape(torch.accelerator.memory._snapshot().keys()) if hasattr(torch.accelerator.memory, "_snapshot") else None
    )
    SAME["segments"] = sorted({s["segment_pool_id"][0] for s in taken["segments"]})
    SAME["devices"] = sorted({s["device"] for s in taken["segments"]})
    del held, on_side


FORMS = {
    "as is": {},
    "state": {"enabled": "state"},
    "no context": {"context": None},
    "context of state": {"context": "state"},
    "context of alloc": {"context": "alloc"},
    "python": {"stacks": "python"},
    "three entries": {"max_entries": 3, "stacks": "python"},
    "compile context": {"compile_context": True, "stacks": "python"},
    "skipping": {"skip_actions": ["free_requested", "snapshot"], "stacks": "python"},
    "cleared": {"clear_history": True, "stacks": "python"},
    "annotations": {"global_record_annotations": True, "stacks": "python"},
    "pinned memory": {"record_pinned_host_memory": True, "stacks": "python"},
    "pinned memory alone": {"record_pinned_host_memory": True, "record_cuda": False, "stacks": "python"},
}


@call("_record_memory_history", "_record_memory_history_impl", "_record_memory_history_legacy")
def forms_of_recording() -> None:
    for name, options in FORMS.items():
        try:
            with recording(**options):
                SAME[f"recorded: {name}"] = recorded_with_frames()
        except TypeError:
            SAME[f"recorded: {name}"] = "not in this torch"
    for arguments in ((True,), (True, False), (True, True, 100, True), (True, True, 100, True, None, True)):
        memory._record_memory_history(*arguments)
        SAME[f"recorded: {arguments}"] = recorded_with_frames()
        memory._record_memory_history(False)
    SAME["recorded: nothing"] = recorded_with_frames()
    wrong = ({"context": "some"}, {"stacks": "c"}, {"enabled": "yes"}, {"skip_actions": ["allocate"]})
    SAME["recorded: wrong"] = [
        failure_of(lambda options=options: memory._record_memory_history(**options)) for options in wrong
    ]
    memory._record_memory_history(None)


def recorded_with_frames() -> list:
    with torch.profiler.record_function("a range"):
        kept, dropped = empty(3 * MIB - 1), empty(1000)
        pinned = torch.empty(100, pin_memory=True)
        del dropped, pinned
    snapshot = memory._snapshot()
    blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == kept.data_ptr()]
    enabled = torch._C._cuda_isHistoryEnabled()
    notes = [entry.get("name") for entry in snapshot.get("external_annotations", ())]
    host = [len(snapshot.get("host_traces", ())), len(snapshot.get("host_segments", ()))]
    return [enabled, trace_of_blocks(snapshot), our_line(blocks[0]), bool(blocks[0].get("frames")), notes, host]


@call("_set_memory_metadata", "_get_memory_metadata", "_memory_metadata_supported")
@call("_annotate_tensor", "_allocation_traceback")
def notes() -> None:
    if not hasattr(memory, "_set_memory_metadata"):
        return
    with recording(stacks="python"):
        memory._set_memory_metadata("epoch 1")
        tensor = empty(3 * MIB)
        SAME["_get_memory_metadata"] = memory._get_memory_metadata()
        memory._set_memory_metadata("")
        if hasattr(memory, "_annotate_tensor"):
            memory._annotate_tensor(tensor, "weights")
            SAME["_memory_metadata_supported"] = memory._memory_metadata_supported()
        if hasattr(memory, "_allocation_traceback"):
            frames = memory._allocation_traceback(tensor.untyped_storage().data_ptr())
            SAME["_allocation_traceback"] = our_line({"frames": frames or ()})
            SAME["_allocation_traceback of nothing"] = memory._allocation_traceback(512)
        SAME["notes"] = trace_of_blocks(memory._snapshot())


@call("_save_segment_usage", "_save_memory_usage")
def pages() -> None:
    with recording(stacks="python"), tempfile.TemporaryDirectory() as folder:
        held = [empty(3 * MIB), empty(100)]
        for save in (memory._save_segment_usage, memory._save_memory_usage):
            file = Path(folder) / save.__name__
            SAME[save.__name__] = [failure_of(lambda save=save, file=file: save(str(file)))]
            SAME[save.__name__] += [file.exists() and "memory_calls.py" in file.read_text()]
        del held


@call("profiler")
def profiler() -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, record_shapes=True, with_stack=True) as run:
        first = empty(3 * MIB)
        second = first + first
        del first
        third = torch.zeros(1000, device="cuda")
        del second, third
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        run.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
        if hasattr(run, "export_memory_timeline"):
            path = Path(folder) / "timeline.raw.json.gz"
            run.export_memory_timeline(str(path), device="cuda:0")
            lines = json.loads(gzip.decompress(path.read_bytes()))
            SAME["export_memory_timeline"] = [line[1:] for line in lines]
    told = ("Bytes", "Total Allocated", "Device Type", "Device Id")
    SAME["profiled memory"] = [[e["args"].get(key) for key in told] for e in events if e.get("name") == "[memory]"]
    SHAPE["profiled memory"] = [sorted(e["args"]) for e in events if e.get("name") == "[memory]"]
    SAME["profiled operators"] = [[row.key, row.self_device_memory_usage] for row in run.key_averages()]
    snapshot = _memory_viz._profile_to_snapshot(run)
    trace = [[e["action"], e["size"], e.get("category")] for e in snapshot["device_traces"][0]]
    SAME["profile_plot"] = [trace, "<html" in _memory_viz.profile_plot(run)]


@call("_memory_viz")
def texts_of_snapshots() -> None:
    with recording(stacks="python"):
        held = [empty(3 * MIB), empty(100)]
        before = memory._snapshot()
        held.append(empty(7 * MIB))
        del held[0]
        after = memory._snapshot()
    SAME["_memory_viz.memory"] = in_use(_memory_viz.memory(after, str))
    SAME["_memory_viz.segments"] = "empty" in _memory_viz.segments(after, str)
    compared = _memory_viz.compare(before["segments"], after["segments"], str).splitlines()
    SHAPE["_memory_viz.compare"] = sorted({line.split("_")[0] for line in compared})
    lines = _memory_viz.trace(after).splitlines()
    SAME["_memory_viz.trace"] = [line.split(" ")[0] for line in lines if line.startswith(("del", "# free"))]
    SAME["_memory_viz.segsum"] = "Legend:" in _memory_viz.segsum(after)


def in_use(lines: str) -> list[str]:
    """Of a flame graph's lines those about blocks in use, without the streams' names."""
    return sorted(line.split(";", 1)[1] for line in lines.splitlines() if "active_allocated" in line)


@call("_cuda_attach_out_of_memory_observer")
def out_of_memory() -> None:
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda device, size, total, free: seen.append([device, size, total]))
    SAME["out of memory"] = [failure_of(lambda: empty(1 << 44)).split(". GPU 0")[0] for _ in range(2)]
    SAME["observed"] = seen
    SAME["too much"] = failure_of(lambda: empty(1 << 61))
    SAME["figures after"] = shared_figures(memory.memory_stats())


@call("_make_uvm_allocator", "_use_uvm")
def managed_memory() -> None:
    if hasattr(memory, "_use_uvm"):
        SAME["_use_uvm"] = failure_of(use_managed_memory).split(". GPU")[0]


def use_managed_memory() -> None:
    with memory._use_uvm():
        empty(3 * MIB)


# Helpers of torch's modules that do nothing with memory.
NOT_CALLED = ("_augment_memory_snapshot_stack_traces", "_recurse_add_to_result", "accelerator._flatten_stats")


def functions() -> list[str]:
    """All functions and classes that the two modules define."""
    named = []
    for module, prefix in ((memory, ""), (torch.accelerator.memory, "accelerator.")):
        named += [
            prefix + name
            for name, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__
        ]
    return [name for name in named if name not in NOT_CALLED]


def main() -> None:
    if sys.argv[1] == "ours":
        import frugal_alloc

        frugal_alloc.enable()
    warnings.simplefilter("ignore", FutureWarning)
    held = [empty(size) for size in (100, 1_000_000, MIB, MIB + 1, 20 * MIB)]
    del held[2]
    for function in dict.fromkeys(CALLS.values()):
        function()
    print(json.dumps({"same": SAME, "shape": SHAPE, "functions": functions(), "called": list(CALLS)}))


if __name__ == "__main__":
    main()

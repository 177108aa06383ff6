"""Calls every function of PyTorch's that records what happens to memory or shows it, and what may be refused."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from pathlib import Path

import torch
from memory_call_results import (
    KIB,
    MIB,
    SAME,
    SHAPE,
    blocks_in_use,
    call,
    empty,
    failure_of,
    our_line,
    recording,
    shape,
    shared_figures,
    trace_of_blocks,
)
from torch.cuda import _memory_viz, memory


@call("memory_snapshot", "_snapshot", "_dump_snapshot", "_free_mutex", "accelerator._snapshot")
def snapshots() -> None:
    side = torch.cuda.Stream()
    with recording():
        held = [empty(size) for size in (100, 1000, 700 * KIB, 3 * MIB, 40 * MIB)]
        del held[1], held[2]
        with torch.cuda.stream(side):
            on_side = empty(2 * MIB)
        SHAPE["memory_snapshot"] = [type(segment).__name__ for segment in memory.memory_snapshot()][:1]
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
            SAME[save.__name__] += [file.exists() and Path(__file__).name in file.read_text()]
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


# The observer of errors stays, so these come last.


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

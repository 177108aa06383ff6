"""Memory of CUDA graphs and MemPools is in the figures, and no advice counts on what a pool would keep."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, MIB, collect, empty, room, run_well
from frugal_alloc._report import page, schema


@pytest.fixture(autouse=True)
def nothing_idle() -> None:
    # A GPU that has not been used is in no report.
    empty(MIB)
    collect()
    torch.cuda.empty_cache()


def capture() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    """A graph, its input of 64 MiB, and its output of 64 MiB."""
    values = torch.zeros(16 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = values + 1
    return graph, values, result


def row() -> dict[str, Any]:
    (found,) = frugal_alloc.report().document["gpus"]
    return found


def by_pool(gpu: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {one["pool"]: (one["allocated_bytes"], one["reserved_bytes"]) for one in gpu["pools"]}


def test_what_graphs_and_pools_hold_is_told_apart() -> None:
    before = by_pool(row())
    held = capture()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = empty(100 * MIB)
    after = by_pool(row())
    for kind, size in (("graphs", 64 * MIB), ("pools", 100 * MIB)):
        gained = [new - old for new, old in zip(after[kind], before.get(kind, (0, 0)), strict=True)]
        assert gained[0] == size and gained[1] >= size, (kind, before, after)
    assert after.get("rest") == before.get("rest")
    del held, pooled, pool


def test_graphs_and_pools_are_parts_of_ours_and_the_rest_is_all_that_pytorch_has() -> None:
    before, held = row(), capture()
    frugal_alloc.disable()
    pytorchs = empty(30 * MIB)
    frugal_alloc.enable()
    gpu, stats = row(), frugal_alloc.memory_stats()
    for row_of, figures in ((gpu, before), (stats, before)):
        # Beside it there is the state of random numbers, for replays.
        assert row_of["allocated_bytes"] - figures["allocated_bytes"] == pytest.approx(128 * MIB, abs=4096)
        assert row_of["native_allocated_bytes"] - figures["native_allocated_bytes"] == 30 * MIB
    assert by_pool(gpu)["rest"] == (gpu["native_allocated_bytes"], gpu["native_reserved_bytes"])
    assert gpu["allocated_bytes"] + gpu["native_allocated_bytes"] == torch.cuda.memory_allocated()
    assert gpu["reserved_bytes"] + gpu["native_reserved_bytes"] == torch.cuda.memory_reserved()
    # What the driver needs for a graph itself is in none of these.
    of_pools = sum(one["reserved_bytes"] for one in gpu["pools"] if one["pool"] != "rest")
    assert sum(one["reserved_bytes"] for one in gpu["private_pools"]) == of_pools <= gpu["reserved_bytes"]
    assert gpu["peak_in_use_bytes"] >= torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    del held, pytorchs


def test_text_and_page_have_the_total_and_what_graphs_hold_of_it() -> None:
    held = capture()
    report = frugal_alloc.report()
    text = str(report)
    told = re.search(r"^GPU 0 \(.*\): ([\d.]+) (\w+) allocated", text, re.M)
    units = {"KiB": 1 << 10, "MiB": MIB, "GiB": GIB}
    assert float(told[1]) * units[told[2]] == pytest.approx(torch.cuda.memory_allocated(), rel=0.01), text
    assert re.search(r"^  of it .*\d+\.\d\d MiB in CUDA graphs", text, re.M), text
    document = schema.conform(report.document)
    assert re.search(r", of it [^<]* in CUDA graphs", page.render(document))
    # Of a report that is older than these figures, what there is is shown.
    for key in ("native_allocated_bytes", "peak_in_use_bytes", "pools"):
        del document["gpus"][0][key]
    assert "in CUDA graphs" not in page.render(document)
    del held


def line_of(function: Any, text: str) -> int:
    """The function's first line with the text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def of_line(line: int) -> dict[str, Any]:
    (pool,) = (one for one in row()["private_pools"] if (one["file"], one["line"]) == (__file__, line))
    return pool


def test_each_pool_is_told_by_the_line_that_made_it_and_what_of_it_comes_back() -> None:
    graph, values, result = capture()
    line = line_of(capture, "torch.cuda.graph(graph)")
    assert of_line(line) == {
        "file": __file__,
        "line": line,
        "captured": True,
        "released": False,
        "lost": False,
        "reserved_bytes": 64 * MIB,
        "allocated_bytes": 64 * MIB,
        "kept_bytes": 0,
        "idle_bytes": 0,
    }
    del result
    assert (of_line(line)["kept_bytes"], of_line(line)["idle_bytes"]) == (64 * MIB, 64 * MIB)
    before = torch.cuda.memory_reserved()
    graph.reset()
    collect()
    torch.cuda.empty_cache()
    assert before - torch.cuda.memory_reserved() == 64 * MIB
    del values


def test_a_pool_of_ours_is_told_by_its_line_and_what_is_free_in_whole_pages() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensors = [empty(30 * MIB), empty(4 * MIB)]
    del tensors[0]
    told = of_line(line_of(test_a_pool_of_ours_is_told_by_its_line_and_what_is_free_in_whole_pages, "MemPool()"))
    assert (told["reserved_bytes"], told["allocated_bytes"], told["idle_bytes"]) == (34 * MIB, 4 * MIB, 30 * MIB)
    assert not told["captured"] and told["kept_bytes"] == 0
    del tensors, pool


def test_of_a_pool_of_segments_only_whole_ones_come_back_and_none_serves_others() -> None:
    pool = torch.cuda.MemPool()
    torch._C._cuda_getCheckpointState(0, pool.id)  # from now on it gets segments
    with torch.cuda.use_mem_pool(pool):
        tensors = [empty(30 * MIB), empty(5 * MIB), empty(5 * MIB)]
    del tensors[:2]
    test = test_of_a_pool_of_segments_only_whole_ones_come_back_and_none_serves_others
    told = of_line(line_of(test, "MemPool()"))
    # Two tensors share 20 MiB, as PyTorch's allocator takes them for small requests. There is no graph.
    assert not told["captured"]
    assert (told["reserved_bytes"], told["allocated_bytes"]) == (50 * MIB, 5 * MIB)
    assert (told["kept_bytes"], told["idle_bytes"]) == (45 * MIB, 30 * MIB)
    del tensors, pool


def test_a_pool_with_the_number_of_one_that_is_gone_is_another() -> None:
    values, number = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda"), torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=number):
        result = values + 1
    del result
    torch.cuda.synchronize()
    graph.reset()
    with torch.cuda.graph(graph, pool=number):  # anew
        result = values + 1
    test = test_a_pool_with_the_number_of_one_that_is_gone_is_another
    (told,) = (one for one in row()["private_pools"] if one["line"] >= line_of(test, "values, number"))
    assert told["line"] == line_of(test, "# anew")
    del result, graph


def test_a_pool_within_a_capture_is_captured() -> None:
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    values = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.graph(graph), torch.cuda.use_mem_pool(pool):
        result = values + 1
    line = line_of(test_a_pool_within_a_capture_is_captured, "pool, graph =")
    assert of_line(line)["captured"]
    del result, graph, pool


def test_of_a_capture_that_failed_nothing_is_said_to_come_back() -> None:
    """In a process of its own, since torch 2.11 keeps its pool for ever."""
    told = run_well(
        """
import frugal_alloc, torch
frugal_alloc.enable()
values = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        result = values + 1
        torch.cuda.synchronize()
except RuntimeError:
    del result
graph.reset()
report(pools=frugal_alloc.report().document["gpus"][0]["private_pools"])
torch.cuda.set_per_process_memory_fraction((150 << 20) / torch.cuda.mem_get_info()[1])
try:
    torch.empty(60 << 20, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    report(error=" ".join(str(error).split()))
"""
    )
    # Later versions let go of it.
    for pool in told["pools"]:
        assert (pool["lost"], pool["released"], pool["kept_bytes"]) == (True, False, 64 * MIB)
        assert "0 bytes allocated, 64.00 MiB free; no graph came of it that could be reset Tried" in told["error"]
        assert "Held by pools" not in told["error"] and "reset()" not in told["error"]


def test_a_result_keeps_a_pool_that_was_released() -> None:
    graph, values, result = capture()
    del graph
    (told,) = (one for one in row()["private_pools"] if one["released"])
    assert (told["allocated_bytes"], told["idle_bytes"]) == (64 * MIB, 0)
    assert "  64.00 MiB  released pool of " in str(frugal_alloc.report())
    del values, result


def test_text_and_top_have_the_largest_pools() -> None:
    held = capture()
    sentence = "64.00 MiB allocated, 0 bytes free; resetting them gives back 0 bytes"
    place = f"bindings/test_pool_figures.py:{line_of(capture, 'torch.cuda.graph(graph)')}"
    text = " ".join(str(frugal_alloc.report()).split())
    assert re.search(rf"64\.00 MiB CUDA graphs of \S*{place}: {sentence}", text), text
    shown = subprocess.run(
        [sys.executable, "-m", "frugal_alloc", "top", "--once"], capture_output=True, text=True, check=True
    )
    assert f"GPU 0: 64.00 MiB  CUDA graphs of {place}: {sentence}" in shown.stdout
    del held


def test_an_error_beside_a_graph_names_only_variables_that_free_memory() -> None:
    with room(2 * GIB):
        graph, values, result = capture()  # noqa: RUF059 - what the error names
        blocker = empty((torch.cuda.mem_get_info()[0] - 32 * MIB) // (2 * MIB) * 2 * MIB)
        with pytest.raises(torch.OutOfMemoryError) as raised:
            empty(90 * MIB)
        text = " ".join(str(raised.value).split())
        assert blocker.numel()
    assert graph is not None
    line = line_of(capture, "torch.cuda.graph(graph)")
    told = (
        rf"Pools 64\.00 MiB CUDA graphs of \S+:{line}: 64\.00 MiB allocated, 0 bytes free; resetting them gives back 0"
    )
    assert re.search(told, text), text
    advice = re.search(r"Change first (.*?)(or, then|Report:|$)", text)[1]
    assert re.match(r"del values before line \d+ of \S+ frees 64.00 MiB", advice), text
    assert "result" not in advice, text
    # Its input is where the graph will read it.
    assert "not what a CUDA graph reads that is replayed later" in advice, text

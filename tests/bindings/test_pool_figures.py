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
from binding_helpers import GIB, MIB, UsersAllocator, collect, empty, pooled, room
from frugal_alloc import _native
from frugal_alloc._out_of_memory.ownership import Ownership
from frugal_alloc._report import page, schema
from frugal_alloc._tracking import users_lines


@pytest.fixture(autouse=True)
def nothing_idle() -> None:
    # A GPU that has not been used is in no report.
    empty(MIB)
    collect()
    torch.cuda.empty_cache()


def capture() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    """A graph, its input and its output of 64 MiB each."""
    values = torch.zeros(16 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = values + 1
    return graph, values, result


def line_of(function: Any, text: str) -> int:
    """The function's first line with the text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def pool_of(line: int) -> tuple[int, int, int, int, int]:
    """What the one pool that the line made is and has: captured, holders, and MiB reserved, allocated and idle."""
    library = _native.load()
    frames = {one: users_lines.of_site(library, library.site(one.site)) for one in library.private_pools() if one.site}
    (pool,) = (one for one, frame in frames.items() if frame and (frame.file, frame.line) == (__file__, line))
    sizes = (pool.reserved_bytes, pool.allocated_bytes, pool.idle_bytes)
    return pool.captured, pool.holders, *(size // MIB for size in sizes)


def test_what_graphs_and_pools_hold_is_in_pytorchs_totals_once() -> None:
    held, pool = capture(), torch.cuda.MemPool()
    tensor = pooled(pool, 100 * MIB)
    told = {one.captured: (one.allocated_bytes, one.reserved_bytes) for one in _native.load().private_pools()}
    assert told == {True: (64 * MIB, 64 * MIB), False: (100 * MIB, 100 * MIB)}
    stats = frugal_alloc.memory_stats()
    for kind, pytorchs in (("allocated", torch.cuda.memory_allocated()), ("reserved", torch.cuda.memory_reserved())):
        assert stats[f"{kind}_bytes"] + stats[f"native_{kind}_bytes"] == pytorchs
    assert stats["allocated_bytes"] >= (64 + 64 + 100) * MIB
    del held, tensor


def test_each_pool_is_told_by_the_line_that_made_it_and_what_of_it_comes_back() -> None:
    graph, values, result = capture()
    line = line_of(capture, "torch.cuda.graph(graph)")
    assert pool_of(line) == (True, 1, 64, 64, 0)
    del result
    assert pool_of(line) == (True, 1, 64, 0, 64)
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    graph.reset()
    assert before - torch.cuda.memory_reserved() == 64 * MIB
    del values


def test_of_movable_memory_whole_pages_come_back_and_of_segments_whole_ones() -> None:
    pools = [torch.cuda.MemPool(), torch.cuda.MemPool(UsersAllocator().allocator)]
    with torch.cuda.use_mem_pool(pools[0]):
        movable = [empty(30 * MIB), empty(4 * MIB)]
    with torch.cuda.use_mem_pool(pools[1]):
        # Two share 20 MiB, as PyTorch's allocator takes them for small requests.
        segments = [empty(30 * MIB), empty(5 * MIB), empty(5 * MIB)]
    del movable[0], segments[:2]
    found = sorted(
        (one.captured, one.reserved_bytes // MIB, one.allocated_bytes // MIB, one.idle_bytes // MIB)
        for one in _native.load().private_pools()
    )
    assert found == [(False, 34, 4, 30), (False, 50, 5, 30)]
    del movable, segments


def test_a_pool_with_the_number_of_one_that_is_gone_is_another() -> None:
    values, number = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda"), torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    for _ in range(2):
        with torch.cuda.graph(graph, pool=number):
            result = values + 1
        del result
        torch.cuda.synchronize()
        graph.reset()
    with torch.cuda.graph(graph, pool=number):  # anew
        result = values + 1
    assert pool_of(line_of(test_a_pool_with_the_number_of_one_that_is_gone_is_another, "# anew")) == (
        True,
        1,
        64,
        64,
        0,
    )
    del result, graph


def test_a_pool_within_a_capture_is_captured() -> None:
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    values = torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.graph(graph), torch.cuda.use_mem_pool(pool):
        result = values + 1
    assert pool_of(line_of(test_a_pool_within_a_capture_is_captured, "pool, graph =")) == (True, 1, 64, 64, 0)
    del result, graph, pool


def test_a_result_keeps_a_pool_that_was_released() -> None:
    graph, values, result = capture()
    del graph
    assert pool_of(line_of(capture, "torch.cuda.graph(graph)")) == (True, 0, 64, 64, 0)
    assert "  64.00 MiB  released pool of " in str(frugal_alloc.report())
    del values, result


# --- Texts and pages


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


def test_no_pool_has_no_line() -> None:
    report = frugal_alloc.report()
    report.document["gpus"][0] |= {"pools": [], "private_pools": []}
    assert "  of it " not in str(report)


def test_advice_leaves_out_what_a_graph_keeps() -> None:
    """The output goes back to the graph's pool, of which nobody else can have anything."""
    from collections import Counter

    graph, values, result = capture()
    variables = {"values": values, "result": result}
    del values, result
    held: Counter[int] = Counter()
    ownership = Ownership(0)
    assert ownership.freed_by_dropping([variables["values"]], held + Counter()) == 64 * MIB
    assert ownership.freed_by_dropping([variables["result"]], held + Counter()) == 0
    del graph


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

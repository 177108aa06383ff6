"""Memory of CUDA graphs and MemPools is in the figures, and no advice counts on what a pool would keep."""

from __future__ import annotations

import re
from typing import Any

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, MIB, collect, empty, is_ours, room
from frugal_alloc._out_of_memory.ownership import Ownership
from frugal_alloc._report import page, schema


@pytest.fixture(autouse=True)
def nothing_idle() -> None:
    # A GPU that has not been used is in no report.
    empty(MIB)
    collect()
    torch.cuda.empty_cache()


def capture() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    """A graph, its input of 64 MiB, which is ours, and its output of 64 MiB."""
    values = torch.zeros(16 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = values + 1
    assert is_ours(values) and not is_ours(result)
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


def test_the_totals_are_those_of_pytorch() -> None:
    held = capture()
    gpu = row()
    stats = frugal_alloc.stats()
    in_use = gpu["allocated_bytes"] + gpu["native_allocated_bytes"]
    assert in_use == torch.cuda.memory_allocated()
    assert stats["allocated_bytes"] + stats["native_allocated_bytes"] == torch.cuda.memory_allocated()
    assert sum(one["allocated_bytes"] for one in gpu["pools"]) == gpu["native_allocated_bytes"]
    assert sum(one["reserved_bytes"] for one in gpu["pools"]) == gpu["native_reserved_bytes"]
    assert gpu["peak_in_use_bytes"] >= torch.cuda.max_memory_allocated() >= in_use
    del held


def test_text_and_page_have_the_total_and_what_graphs_hold_of_it() -> None:
    held = capture()
    report = frugal_alloc.report()
    text = str(report)
    told = re.search(r"^GPU 0 \(.*\): ([\d.]+) (\w+) in use", text, re.M)
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


def test_no_pool_has_no_line() -> None:
    row_without = row() | {"pools": []}
    report = frugal_alloc.report()
    report.document["gpus"] = [row_without]
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
    advice = re.search(r"Change first (.*?)(or, then|Report:|$)", text)[1]
    assert re.match(r"del values before line \d+ of \S+ frees 64.00 MiB", advice), text
    assert "result" not in advice, text
    # Its input is where the graph will read it.
    assert "not what a CUDA graph reads that is replayed later" in advice, text

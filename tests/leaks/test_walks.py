"""Walks of autograd's graphs, for leaks and for errors: as far on a busy machine as on an idle one, and no farther."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from frugal_alloc._out_of_memory.graphs import Graph
from frugal_alloc._tracking.live_tensors import Extents, GraphMemory

STEPS = 1000
WALKS = {
    "of an error": lambda result: Graph([result.grad_fn]),
    "of a leak": lambda result: GraphMemory([result], Extents([])),
}

each_walk = pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)


@pytest.fixture
def result() -> torch.Tensor:
    """The last of so many steps, each a node of its graph."""
    values = torch.ones(1, requires_grad=True)
    for _ in range(STEPS):
        values = values * 2
    return values


@each_walk
def test_a_walk_sees_all_of_a_graph_however_long_others_have_the_core(
    walk: Callable[[torch.Tensor], Any], result: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(step=3600.0)
    for clock in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, clock, lambda: next(hours))
    walked = walk(result)
    monkeypatch.undo()
    assert walked.is_complete


@each_walk
def test_a_walk_ends_when_its_own_work_has_taken_too_long(
    walk: Callable[[torch.Tensor], Any], result: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr(time, "thread_time", lambda: next(hours))
    walked = walk(result)
    monkeypatch.undo()
    assert not walked.is_complete


@each_walk
def test_a_walk_ends_after_so_many_nodes(
    walk: Callable[[torch.Tensor], Any], result: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frugal_alloc._out_of_memory.graphs._MOST_NODES", STEPS // 2)
    monkeypatch.setattr("frugal_alloc._tracking.live_tensors.MOST_NODES", STEPS // 2)
    assert not walk(result).is_complete

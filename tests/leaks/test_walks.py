"""Walks of autograd's graphs, for leaks and for errors: as far on a busy machine as on an idle one, and no farther."""

from __future__ import annotations

import gc
import itertools
import time
import weakref
from typing import Any

import pytest
import torch
from frugal_alloc._heap import live_tensors
from frugal_alloc._heap.reach import Reach
from frugal_alloc._heap.roots import Root

STEPS = 1000


def walk_behind(result: torch.Tensor) -> live_tensors.Walk:
    walk = live_tensors.Walk(seconds=0.5)
    for _ in walk.behind([result.grad_fn]):
        pass
    return walk


@pytest.fixture
def result() -> torch.Tensor:
    """The last of so many steps, each a node of its graph."""
    values = torch.ones(1, requires_grad=True)
    for _ in range(STEPS):
        values = values * 2
    return values


def test_a_walk_sees_all_of_a_graph_however_long_others_have_the_core(
    result: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(step=3600.0)
    for clock in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, clock, lambda: next(hours))
    walked = walk_behind(result)
    monkeypatch.undo()
    assert walked.is_complete


def test_a_walk_ends_when_its_own_work_has_taken_too_long(
    result: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr(time, "thread_time", lambda: next(hours))
    walked = walk_behind(result)
    monkeypatch.undo()
    assert not walked.is_complete


def test_a_walk_ends_after_so_many_nodes(result: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tensors, "MOST_NODES", STEPS // 2)
    assert not walk_behind(result).is_complete


def _reached(value: Any, most: int) -> int:
    reach = Reach(most)
    reach.walk([Root("variable", "value", value, None, "", True)])
    return len(reach.objects)


def test_a_walk_of_holders_ends_after_so_many_objects() -> None:
    lists = [[[]] for _ in range(STEPS)]
    assert _reached(lists, 10 * STEPS) == 1 + 2 * STEPS
    assert _reached(lists, STEPS // 2) == STEPS // 2


def test_a_walk_of_holders_looks_at_a_part_of_the_longest_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frugal_alloc._heap.reach.MOST_ITEMS", STEPS)
    assert _reached([[] for _ in range(2 * STEPS)], 10 * STEPS) == 1 + STEPS


def test_a_walk_of_holders_keeps_nothing_alive() -> None:
    class Local:
        """A class of the program's, which ends."""

    local = weakref.ref(Local)
    assert _reached([Local()], STEPS) > 1
    del Local
    gc.collect()
    assert local() is None

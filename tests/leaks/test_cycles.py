"""When garbage is collected at the ends of epochs, and what is said to have been in cycles."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from fake_library import FakeLibrary
from frugal_alloc._tracking.cycles import ALL, WARM_UP, YOUNG, Cycles

MIB = 1 << 20


class Run:
    """A program that has warmed up with 10 MiB in use on each GPU."""

    def __init__(self, gpus: int) -> None:
        self.library = FakeLibrary()
        self.library.allocated = dict.fromkeys(range(gpus), 10 * MIB)
        self.cycles = Cycles(self.library)
        self.collections = 0
        self.generations: list[int] = []
        #: What a collection does.
        self.collect: Callable[[], None] = lambda: None
        for _ in range(WARM_UP):
            self.cycles.look()

    def count_and_collect(self, generation: int = ALL) -> int:
        self.collections += 1
        self.generations.append(generation)
        self.collect()
        return 0


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Run]:
    def started(gpus: int = 1) -> Run:
        run = Run(gpus)
        monkeypatch.setattr(gc, "collect", run.count_and_collect)
        return run

    return started


def test_nothing_is_collected_while_no_more_is_in_use_than_before(start) -> None:
    run = start()
    for _ in range(5):
        run.cycles.look()
    assert run.collections == 0


@pytest.mark.parametrize("freed", [0, 20 * MIB])
def test_collections_become_rarer_whether_or_not_they_free_memory(start, freed: int) -> None:
    run = start()
    collected_at = []

    def free() -> None:
        run.library.allocated[0] -= freed

    run.collect = free
    for look in range(1, 16):
        run.library.allocated[0] += 30 * MIB
        before = run.collections
        run.cycles.look()
        if run.collections > before:
            collected_at.append(look)
    assert collected_at == [1, 3, 7, 15]


def test_all_objects_are_looked_at_only_where_a_line_seems_to_leak(start) -> None:
    run = start()
    for kinds in ([], ["growing"], [], ["suspect"], ["leak"], ["leak"]):
        run.library.found = [SimpleNamespace(kind=kind) for kind in kinds]
        run.library.allocated[0] *= 2
        run.cycles.look()
    # Each becomes rarer by itself.
    assert run.generations == [YOUNG, YOUNG, ALL, ALL]

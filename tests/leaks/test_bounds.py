"""What is read of a collection's bound, without a call of its own."""

from __future__ import annotations

import collections
import functools
from typing import Any

import pytest
from frugal_alloc._tracking import bounds
from frugal_alloc._tracking.bounds import Bound


class Owner:
    def __init__(self, **attributes: Any) -> None:
        self.entries = {1: "one", 2: "two"}
        self.__dict__ |= attributes


class Watchful(dict):
    """Its own code may not run while objects are looked at."""

    maxsize = 8

    def __len__(self) -> int:
        raise AssertionError("asked for its length")

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


def cached(maxsize: int | None) -> Any:
    double = functools.lru_cache(maxsize=maxsize)(lambda number: 2 * number)
    for number in range(3):
        double(number)
    return double


@pytest.mark.parametrize(
    "value, bound",
    [
        (collections.deque([1, 2], maxlen=5), Bound("maxlen", 2, 2, 5)),
        (collections.deque([1, 2]), None),
        (collections.deque(maxlen=5), None),
        (cached(10), Bound("maxsize", 3, 3, 10)),
        (cached(None), None),
        (cached(0), None),
        ([1, 2], None),
        ("ab", None),
    ],
)
def test_bound_that_a_collection_has_itself(value: Any, bound: Bound | None) -> None:
    assert bounds.of(value, []) == bound


def test_code_of_the_collections_class_does_not_run() -> None:
    assert bounds.of(Watchful(a=1), [Watchful(a=2), Watchful(a=3)]) == Bound("maxsize", 1, 1, 8)


@pytest.mark.parametrize(
    "attributes, bound",
    [
        ({"capacity": 2}, Bound("capacity", 2, 2, 2)),
        ({"_maxsize": 100}, Bound("maxsize", 2, 2, 100)),
        ({"_Cache__maxsize": 100}, Bound("maxsize", 2, 2, 100)),
        ({"_Cache__maxsize": 4096, "_Cache__currsize": 1024}, Bound("maxsize", 2, 1024, 4096)),
        ({"max_entries": 3, "batch_size": 1}, Bound("max_entries", 2, 2, 3)),
        ({"capacity": 1}, None),  # which nobody keeps to
        ({"capacity": 3.5}, None),
        ({"capacity": True}, None),
        ({"max_len": 100, "max_steps": 100}, None),
        ({}, None),
    ],
)
def test_bound_that_the_owner_has(attributes: dict[str, Any], bound: Bound | None) -> None:
    owner = Owner(**attributes)
    assert bounds.of(owner.entries, [owner]) == bound
    assert bounds.of(owner.entries, [owner.__dict__, owner]) == bound

"""What is at work as memory runs out, and which changes of it bring something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, MIB, collect, empty
from frugal_alloc import _native
from frugal_alloc._out_of_memory import holding_lines, levers


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    collect()


def train(model: torch.nn.Module, values: torch.Tensor) -> torch.Tensor:
    return model(values)


def test_a_split_adds_up_and_leaves_lines_of_the_users_alone() -> None:
    library = _native.load()
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Sigmoid(), torch.nn.Linear(512, 64)).cuda()
    result = train(model, torch.zeros(4096, 64, device="cuda"))
    held = {(one.code_line.file, one.code_line.function): one for one in holding_lines.by_size(library, 0)}
    of_step = next(one for (_, function), one in held.items() if function.endswith("train"))
    inner = holding_lines.split(library, 0, of_step)
    assert len(inner) == 2 and sum(one.bytes for one in inner) == of_step.bytes
    mine = empty(8 * MIB)
    direct = next(one for one in holding_lines.by_size(library, 0) if one.code_line.function == "empty")
    assert holding_lines.split(library, 0, direct) == []
    del result, mine


FACTS = {"requested_bytes": 300 * MIB, "missing_bytes": 100 * MIB}


def facts(**changed: int) -> Any:
    return type("Facts", (), FACTS | changed)


def flight(**changed: Any) -> levers.InFlight:
    return levers.NOTHING._replace(**changed)


@pytest.mark.parametrize(
    ("known", "seen", "expected"),
    [
        # Where nothing is known of what is at work, only the request can be divided.
        ({}, {}, ["this one tensor of 300.00 MiB in 3 pieces"]),
        # Nothing that can be had would hold a piece.
        ({"missing_bytes": 300 * MIB}, {}, []),
        # A row takes 50 MiB of what is at work; the request is not a whole number of rows.
        ({"requested_bytes": 300 * MIB + 1}, {"rows": 4, "row_bytes": 200 * MIB}, ["this one", "fewer"]),
        # Not even one row would fit.
        ({"missing_bytes": 290 * MIB}, {"rows": 2, "row_bytes": 10 * MIB}, ["this one tensor of 300.00 MiB in 60"]),
        ({"missing_bytes": 300 * MIB}, {"weight_bytes": GIB}, ["half precision (the model"]),
        # What it brings would not be enough.
        ({"missing_bytes": 300 * MIB}, {"weight_bytes": 512 * MIB}, []),
    ],
)
def test_levers_are_those_that_bring_something(known: Any, seen: Any, expected: list[str]) -> None:
    found = levers.find(facts(**known), flight(**seen))
    assert len(found) == len(expected), found
    assert all(lever.text.startswith(start) for lever, start in zip(found, expected, strict=True)), found


def test_what_a_frame_holds_in_objects_and_lists_is_at_work() -> None:
    class Cache:
        def __init__(self) -> None:
            self.keys = [torch.zeros(4, 1 << 20, device="cuda") for _ in range(3)]

    frame = type("Frame", (), {"values": {"cache": Cache(), "model": torch.nn.Linear(512, 512).cuda()}, "file": ""})
    assert frugal_alloc.memory_stats()["allocated_bytes"] > 0
    found = levers.look([frame], 0)
    assert (found.rows, found.row_bytes, found.single_bytes) == (4, 48 * MIB, 48 * MIB)
    assert found.weight_bytes == 512 * 512 * 4 + 512 * 4


def test_what_an_earlier_turn_left_has_no_part_in_this_one() -> None:
    values = {"scores": torch.zeros(4, 1 << 20, device="cuda"), "hidden": torch.zeros(16, 1 << 10, device="cuda")}
    frame = type("Frame", (), {"values": values, "file": "serve.py"})
    dead = type("Dead", (), {"names": ("scores",), "file": "serve.py"})
    assert levers.look([frame], 0).rows == 4
    assert levers.look([frame], 0, [dead]).rows == 16

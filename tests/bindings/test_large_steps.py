"""A step that is one call of a library's is told by the library's lines; and where little is kept for backward, what
is advised is enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, MIB, collect, empty, room
from frugal_alloc import _native
from frugal_alloc._out_of_memory import holding_lines, levers
from out_of_memory_messages import failure


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    collect()


def advice(text: str) -> list[str]:
    """The changes that an error names, the first one first."""
    found = re.findall(r"^(?:Change first|or, then)\s+(.*(?:\n {14}.*)*)", text, re.M)
    return [" ".join(one.split()) for one in found]


def train(model: torch.nn.Module, values: torch.Tensor) -> torch.Tensor:
    return model(values)


def test_a_line_that_is_all_of_a_step_is_split_by_the_modules_within() -> None:
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    layers = [layer for _ in range(8) for layer in (linear(64, 1024), relu(), linear(1024, 64))]
    model = torch.nn.Sequential(*layers).cuda()
    values = torch.zeros(16384, 64, device="cuda")
    with room(400 * MIB):
        text = failure(train, model, values)
    split = re.findall(r"([\d.]+ MiB) of it in (\S+), (\S+):\d+ \(\d+ tensors?\)", " ".join(text.split()))
    assert [(name, file) for _, name, file in split] == [
        ("ReLU.forward", "torch/nn/modules/activation.py"),
        ("Linear.forward", "torch/nn/modules/linear.py"),
    ], text
    assert len(text.splitlines()) <= 27, text


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


def score(rows: int, dtype: torch.dtype = torch.float32, pieces: int = 1) -> None:
    """Attention as evaluation computes it: scores of all rows, then their weights, in one piece or several."""
    with torch.no_grad():
        queries = torch.zeros(rows, 4, 1024, 64, device="cuda", dtype=dtype)
        for part in queries.chunk(pieces):
            scores = part @ part.transpose(-1, -2)
            weights = scores.softmax(-1)
            del scores, weights


# 16 MiB of scores for each row, as much of weights, and 1 MiB of queries.
ROWS = 16


def test_fewer_at_a_time_is_advised_with_how_many_fit() -> None:
    with room(450 * MIB):
        text = failure(score, ROWS)
        told = re.match(
            r"fewer at a time: with 16 at once each takes (\d+)\.\d\d MiB, .* (\d+) would fit", advice(text)[0]
        )
        assert told, text
        assert int(told[1]) in (33, 34) and 12 <= int(told[2]) < ROWS
        collect()
        score(int(told[2]))


def test_half_precision_is_advised_and_is_enough() -> None:
    with room(450 * MIB):
        text = failure(score, ROWS)
        told = next(one for one in advice(text) if one.startswith("half precision (autocast)"))
        assert re.search(r"27\d\.\d\d MiB of tensors at work are in single precision", told), text
        collect()
        score(ROWS, torch.bfloat16)


def test_pieces_are_advised_and_are_enough() -> None:
    with room(450 * MIB):
        text = failure(score, ROWS)
        told = next(one for one in advice(text) if one.startswith("this one tensor of 256.00 MiB in 2 pieces"))
        assert "a piece takes 128.00 MiB" in told
        collect()
        score(ROWS, pieces=2)


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

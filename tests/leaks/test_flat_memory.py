"""A pool whose entries are replaced at random is no leak: its memory is flat, whatever its lines say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

# Filled at one line and replaced at others, beside a list that keeps something of each epoch, or none.
PROGRAM = """
import json, random, sys
import frugal_alloc, torch
frugal_alloc.enable()
sizes, replaces_at, leaks = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "leaks"
random.seed(0)
pool, kept = [], []

def entry():
    kib = 512 if sizes == "equal" else random.randrange(300, 900)
    return torch.empty(kib << 10, dtype=torch.uint8, device="cuda")

def one():
    pool[random.randrange(50)] = entry()

def other():
    pool[random.randrange(50)] = entry()

for epoch in range(16):
    for _ in range(12):
        if len(pool) < 50:
            pool.append(entry())
        else:
            (one, other)[random.randrange(replaces_at)]()
    if leaks:
        kept.append(torch.empty(2 << 20, dtype=torch.uint8, device="cuda"))
    frugal_alloc.epoch_end()
report = frugal_alloc.report()
print("RESULTS" + json.dumps([report.document, str(report)]))
"""


def held(document: dict[str, Any]) -> list[str]:
    return [verdict["held_by"][0]["what"] for verdict in document["verdicts"]]


@pytest.mark.parametrize(
    ("sizes", "replaces_at"), [("equal", "1"), ("equal", "2"), ("several", "1")], ids=["one line", "two lines", "sizes"]
)
def test_pool_that_is_replaced_at_random_is_silent(run_program, sizes: str, replaces_at: str) -> None:
    document, text = run_program(PROGRAM, sizes, replaces_at, "healthy")
    assert document["verdicts"] == [], text
    assert text.startswith("frugal_alloc: no leak after 16 epochs")


def test_leak_beside_the_pool_is_found_alone(run_program) -> None:
    document, text = run_program(PROGRAM, "equal", "1", "leaks")
    assert held(document) == ["list 'kept'"], text

"""A few bytes that stay with each epoch are told without alarm; what asserts that nothing stays fails all the same."""

from __future__ import annotations

from typing import Any

import pytest

# Three tensors of 512 bytes stay with each epoch, the least that there is, and perhaps some large ones.
PROGRAM = """
import json, sys
import frugal_alloc, torch
frugal_alloc.enable()
small, large = [], []

def epoch(leaks_much):
    for _ in range(3):
        small.append(torch.ones(8, device="cuda"))
    if leaks_much:
        large.append(torch.ones(2 << 20, device="cuda"))
    frugal_alloc.epoch_end()

for _ in range(12):
    epoch(sys.argv[1] == "much")
report = frugal_alloc.report()
try:
    with frugal_alloc.no_leaks():
        small.append(torch.ones(8, device="cuda"))
    refused = ""
except frugal_alloc.LeakError as error:
    refused = str(error)
print("RESULTS" + json.dumps([report.document, str(report), refused]))
"""


@pytest.fixture(scope="module")
def results(run_program) -> dict[str, Any]:
    return {name: run_program(PROGRAM, name, memory="24GiB") for name in ("little", "much")}


def told(document: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(verdict["held_by"][0]["what"], verdict["material"]) for verdict in document["verdicts"]]


def test_three_tensors_of_512_bytes_are_not_material(results):
    document, text, _ = results["little"]
    assert told(document) == [("list 'small'", False)]
    assert document["verdicts"][0]["bytes_per_epoch"] == 3 * 512
    assert document["verdicts"][0]["out_of_memory_in"]["epochs"] > 1_000_000
    assert text.startswith("frugal_alloc: no large leak after 12 epochs\n")
    assert "runs out" not in text
    assert "\n1 small one: " in text


def test_they_come_after_what_is_material(results):
    document, text, _ = results["much"]
    assert told(document) == [("list 'large'", True), ("list 'small'", False)]
    assert text.startswith("frugal_alloc: leak, 8.00 MiB per epoch")
    assert text.index("list 'large'") < text.index("GPU 0") < text.index("1 small one: ") < text.index("list 'small'")


def test_no_confidence_is_certainty(results):
    assert [verdict["confidence"] for verdict in results["much"][0]["verdicts"]] == [0.99, 0.99]
    assert "confidence 99%" in results["much"][1]


@pytest.mark.parametrize("name", ["little", "much"])
def test_no_leaks_fails_for_the_least_of_them(name, results):
    assert results[name][2].startswith("GPU memory is still in use that was not before: 512 bytes on GPU 0")

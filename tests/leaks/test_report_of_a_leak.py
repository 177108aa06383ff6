"""What a report says of a leak in a function that has returned: its rate, what has gone since, and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PROGRAM = """
import json
import frugal_alloc, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
frugal_alloc.enable()

def train():
    outputs = []
    model = nn.Linear(128, 64).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.ones(64, 128)), batch_size=16)
    for _ in range(10):
        for (inputs,) in loader:
            output = model(inputs.cuda())
            outputs.append(output.detach().repeat(8, 1))
            optimizer.zero_grad()
            output.square().mean().backward()
            optimizer.step()

train()
report = frugal_alloc.report()
print("RESULTS" + json.dumps([report.verdicts, str(report)]))
"""
BYTES = 128 * 64 * 4  # of what a step keeps


@pytest.fixture(scope="module")
def report(run_program: Callable[..., Any]) -> tuple[dict[str, Any], str]:
    (verdict, *_), text = run_program(PROGRAM, memory="3GiB")
    return verdict, text


def test_rate_is_of_the_programs_epochs_however_they_were_judged(report) -> None:
    verdict, _ = report
    assert verdict["bytes_per_epoch"] == pytest.approx(4 * BYTES, rel=0.01)
    assert verdict["bytes_per_step"] == pytest.approx(BYTES, rel=0.01)


def test_what_has_been_let_go_since_is_said_with_who_held_it(report) -> None:
    verdict, text = report
    assert verdict["bytes_now"] == 0
    assert "let go since" in text and "list 'outputs'" in text


def test_text_says_what_to_do_within_a_hundred_columns(report) -> None:
    _, text = report
    assert "store .cpu()" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text

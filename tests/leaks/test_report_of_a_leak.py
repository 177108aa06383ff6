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


def test_rate_is_of_the_programs_epochs_and_what_was_let_go_since_is_said_with_its_holder_and_remedy(
    run_program: Callable[..., Any],
) -> None:
    (verdict, *_), text = run_program(PROGRAM, memory="3GiB")
    assert verdict["bytes_per_epoch"] == pytest.approx(4 * BYTES, rel=0.01)
    assert verdict["bytes_per_step"] == pytest.approx(BYTES, rel=0.01)
    assert verdict["bytes_now"] == 0
    assert "let go since" in text and "list 'outputs'" in text and "store .cpu()" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text

"""What is being trained grows on purpose, and a note says so. That it gets no verdict is claimed by programs/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAM = """
import json
import frugal_alloc, torch
from torch import nn
frugal_alloc.enable()
model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))).cuda()
for parameter in model.parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.Adam(model[-1].parameters())
for layer in reversed(model):
    layer.requires_grad_(True)
    if layer is not model[-1]:
        optimizer.add_param_group({"params": list(layer.parameters())})
    for _ in range(4):
        model(torch.ones(8, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    frugal_alloc.epoch_end()
report = frugal_alloc.report()
print("RESULTS" + json.dumps([report.document, str(report)]))
"""


def test_growth_of_what_is_trained_is_a_note(run_program: Callable[..., Any]) -> None:
    document, text = run_program(PROGRAM)
    assert document["verdicts"] == [], text
    assert [note for note in document["notes"] if "taken for meant" in note], text
    assert text.startswith("frugal_alloc: no leak")

"""What is being trained grows on purpose: layers that are unfrozen, classes and parts that are added."""

from __future__ import annotations

import pytest

PROGRAM = """
import json, sys
import frugal_alloc, torch
from torch import nn
frugal_alloc.enable()

def trained(model, optimizer):
    for _ in range(4):
        model(torch.ones(8, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    frugal_alloc.epoch_end()

def layers_unfrozen():
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))).cuda()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    optimizer = None
    for layer in reversed(model):
        layer.requires_grad_(True)
        if optimizer is None:
            optimizer = torch.optim.Adam(layer.parameters())
        else:
            optimizer.add_param_group({"params": list(layer.parameters())})
        trained(model, optimizer)
    return model, optimizer

def blocks_added():
    model = nn.Sequential(nn.Linear(256, 256)).cuda()
    for _ in range(12):
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        model.append(nn.Linear(256, 256).cuda())
        optimizer = torch.optim.Adam(model[-1].parameters())
        trained(model, optimizer)
    return model, optimizer

def classes_added():
    head = nn.Linear(256, 1024).cuda()
    for task in range(12):
        optimizer = torch.optim.Adam(head.parameters())
        trained(head, optimizer)
        larger = nn.Linear(256, head.out_features + 512).cuda()
        with torch.no_grad():
            larger.weight[: head.out_features] = head.weight
        head = larger
    optimizer = torch.optim.Adam(head.parameters())
    trained(head, optimizer)
    return head, optimizer

def models_of_folds_kept():
    models = []
    for _ in range(12):
        model = nn.Linear(256, 256).cuda()
        trained(model, torch.optim.Adam(model.parameters()))
        trained(model, torch.optim.Adam(model.parameters()))
        models.append(model)
    return models

kept = globals()[sys.argv[1]]()
report = frugal_alloc.report()
print("RESULTS" + json.dumps([report.document, str(report)]))
"""


@pytest.mark.parametrize("name", ["layers_unfrozen", "blocks_added"])
def test_growth_of_what_is_trained_is_a_note(run_program, name: str) -> None:
    document, text = run_program(PROGRAM, name)
    assert document["verdicts"] == [], text
    assert [note for note in document["notes"] if "taken for meant" in note], text
    assert text.startswith("frugal_alloc: no leak")


def test_head_that_is_made_larger_for_each_task_is_silent(run_program) -> None:
    document, text = run_program(PROGRAM, "classes_added")
    assert document["verdicts"] == [], text


def test_models_of_earlier_folds_are_not_trained_any_more(run_program) -> None:
    document, text = run_program(PROGRAM, "models_of_folds_kept")
    assert document["verdicts"][0]["pattern"] == "model_rebuilt", text

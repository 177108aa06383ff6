"""Nobody is told that there is no leak of what nobody has looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = """
import json, sys
import frugal_alloc, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
frugal_alloc.enable()
net = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
data = DataLoader(TensorDataset(torch.rand(64, 128)), 8)
kept = []

def train(epochs):
    for _ in range(epochs):
        for (inputs,) in data:
            output = net(inputs.cuda())
            output.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if sys.argv[3] == "leaks":
                kept.append(output.detach())

def off():
    frugal_alloc.enable(track="off")

def disabled():
    frugal_alloc.disable()

def said():
    report = frugal_alloc.report()
    return [report.document["epochs"], str(report)]

watched = int(sys.argv[2])
train(watched)
globals()[sys.argv[1]]()
train(10)
results = [said()]
frugal_alloc.enable(track="on")
train(12)
print("RESULTS" + json.dumps([*results, said()]))
"""


@pytest.mark.parametrize("ended_by", ["off", "disabled"])
def test_what_was_not_watched_is_no_reason_to_say_no_leak(run_program, ended_by: str) -> None:
    (epochs, text), _ = run_program(PROGRAM, ended_by, "0", "leaks")
    assert (epochs["ended"], epochs["unwatched"]) == (0, 9)
    assert text.startswith("frugal_alloc: nothing is known about leaks: 9 epochs were not watched\n")


@pytest.mark.parametrize(
    ("ended_by", "why"), [("off", "the setting track is off: "), ("disabled", "frugal_alloc is disabled: ")]
)
def test_headline_says_how_much_was_watched_and_a_note_why(run_program, ended_by: str, why: str) -> None:
    (epochs, text), (later, found) = run_program(PROGRAM, ended_by, "2", "healthy")
    assert (epochs["ended"], epochs["unwatched"]) == (1, 10)
    assert text.startswith("frugal_alloc: no leak in what was watched, after 1 epoch")
    assert "; 10 epochs were not watched" in " ".join(text.split())
    assert f"note: {why}" in text
    assert later["unwatched"] == 10
    assert found.startswith("frugal_alloc: no leak in what was watched, after 13 epochs"), found
    assert why not in found


def test_line_at_exit_counts_causes_and_what_was_not_watched(run_program, tmp_path: Path) -> None:
    program = PROGRAM.replace('print("RESULTS"', 'print("NONE"') + "off()\ntrain(3)\n"
    told = run_program(program, "off", "2", "leaks", FRUGAL_ALLOC_CONF=f"report_dir:{tmp_path}")
    assert "frugal_alloc: 1 verdict on this run's memory; 13 epochs were not watched: " in told

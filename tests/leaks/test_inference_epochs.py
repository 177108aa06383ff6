"""Inference without epochs of its own is judged by calls of modules: the rest of it is claimed by programs/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAM = """
import json, sys
import frugal_alloc, torch
from torch import nn
frugal_alloc.enable()
kept = []

def one_call():
    net = nn.Sequential(*(nn.Linear(128, 128) for _ in range(60))).cuda()
    kept.append(net(torch.rand(8, 128).cuda()))

@torch.no_grad()
def until_memory_is_out():
    net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 4096)).cuda().eval()
    for _ in range(10_000):
        inputs = torch.rand(8, 128)
        kept.append(net(inputs.cuda()).repeat(32, 1))  # kept

try:
    globals()[sys.argv[1]]()
except torch.OutOfMemoryError as error:
    print("RESULTS" + json.dumps(str(error)))
    sys.exit()
report = frugal_alloc.report()
print("RESULTS" + json.dumps([report.document, str(report)]))
"""


def test_parts_of_one_call_are_not_told_apart(run_program: Callable[..., Any]) -> None:
    document, text = run_program(PROGRAM, "one_call")
    assert document["verdicts"] == [], text


def test_error_of_a_server_says_that_a_cache_which_still_fills_looks_like_a_leak(
    run_program: Callable[..., Any],
) -> None:
    text = run_program(PROGRAM, "until_memory_is_out", memory="1GiB")
    line = PROGRAM[: PROGRAM.index("# kept")].count("\n") + 1
    sentence = text.splitlines()[1]
    assert sentence.startswith("Leak, or a cache that still fills: what ") and f"program.py:{line} makes" in sentence

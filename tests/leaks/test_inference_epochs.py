"""Inference without epochs of its own is judged by calls of modules: what is no error of it is claimed by programs/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAM = """
import json
import frugal_alloc, torch
from torch import nn
frugal_alloc.enable()
kept = []
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 4096)).cuda().eval()
try:
    with torch.no_grad():
        for _ in range(10_000):
            kept.append(net(torch.rand(8, 128).cuda()).repeat(32, 1))  # kept
except torch.OutOfMemoryError as error:
    print("RESULTS" + json.dumps(str(error)))
"""


def test_error_of_a_server_says_that_a_cache_which_still_fills_looks_like_a_leak(
    run_program: Callable[..., Any],
) -> None:
    text = run_program(PROGRAM, memory="1GiB")
    line = PROGRAM[: PROGRAM.index("# kept")].count("\n") + 1
    sentence = text.splitlines()[1]
    assert sentence.startswith("Leak, or a cache that still fills: what ") and f"program.py:{line} makes" in sentence

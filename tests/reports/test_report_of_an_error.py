"""What is left when memory runs out: the report of that moment if the run got no further, else of its end."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import fork_server
import pytest
import simulated_gpu

MIB = 1 << 20
PROGRAM = """
import frugal_alloc, sys, torch
frugal_alloc.enable()
weight = torch.nn.Parameter(torch.zeros(1 << 20, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)

def step(batch):
    activations = [weight * 2 for _ in range(batch)]
    sum(one.sum() for one in activations).backward()
    optimizer.step()

for batch in map(int, sys.argv[1:]):
    try:
        step(batch)
    except torch.OutOfMemoryError:
        print("swallowed")
"""


def run(folder: Path, *batches: int) -> tuple[str, dict[str, Any]]:
    """The page's headline and the report that a program leaves which trains with these batches.

    A batch has 4 MiB of activations for each of its rows.
    """
    program = folder / "train.py"
    program.write_text(PROGRAM)
    environment = simulated_gpu.environment(1 << 30) | {"FRUGAL_ALLOC_CONF": f"report_dir:{folder / 'reports'}"}
    command = [sys.executable, program, *map(str, batches)]
    done = fork_server.run(command, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "swallowed\n"
    (page,) = (folder / "reports").glob("frugal-0-*.html")
    (headline,) = re.findall("<h1>(.*)</h1>", page.read_text())
    return headline, json.loads(page.with_suffix(".json").read_text())


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_error_that_is_swallowed_is_in_the_report(tmp_path: Path, goes_on: bool) -> None:
    headline, report = run(tmp_path, 8, 8, 1000, *([8] if goes_on else []))
    if goes_on:
        assert headline.endswith("; the run met 1 out-of-memory error and went on")
    else:
        assert headline.startswith("Out of memory: this step needs")
    assert report["oom"]["went_on"] == goes_on
    assert (report["oom"]["verdict"], report["oom"]["line"]) == (
        "too_big",
        PROGRAM.count("\n", 0, PROGRAM.index("* 2")) + 1,
    )
    assert report["oom"]["allocated_bytes"] > 300 * MIB
    assert report["epochs"]["steps"] == (3 if goes_on else 2)
    # Of the moment at which memory ran out, or of the end, by which activations are gone.
    held = report["gpus"][0]["allocated_bytes"]
    assert (held < 50 * MIB) if goes_on else (held > 300 * MIB)
    assert len(report["frames"]) > max(report["oom"]["stack"])

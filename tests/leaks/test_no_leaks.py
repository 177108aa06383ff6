"""Memory that a block leaves behind: on which GPU, and at which line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._tracking import no_leaks
from frugal_alloc._tracking.no_leaks import LeakError, NoLeaks

MIB = 1 << 20


def test_what_one_gpu_lets_go_makes_up_for_nothing_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use = iter([{0: 100 * MIB, 1: 100 * MIB}, {0: 160 * MIB, 1: 0}])
    monkeypatch.setattr(no_leaks, "_in_use", lambda: next(in_use))
    with pytest.raises(LeakError, match=r"60.0+ MiB on GPU 0"), NoLeaks(10 * MIB):
        pass


PROGRAM = """
import json
import frugal_alloc, torch
from torch import nn

frugal_alloc.enable()
kept = []
net = nn.Linear(256, 256).cuda()

def told(leave):
    try:
        with frugal_alloc.no_leaks():
            leave()
    except frugal_alloc.LeakError as error:
        return [" ".join(line.split()[2:]) for line in str(error).splitlines()[1:]]

def leave(size=8000):
    kept.append(net(torch.rand(size, 256, device="cuda")))

def leave_little():
    kept.append(torch.ones(1, device="cuda"))

results = {}
leave()  # cuBLAS takes memory to work in, at the line that leaks.
results["after a warm-up"] = told(leave)
for _ in range(10_001):
    leave_little()
results["after 10,000 others"] = told(leave_little)
with frugal_alloc.track() as region:
    kept.append(torch.ones(2048, device="cuda"))
results["track"] = [sum(region.peak.values()), sum(region.kept.values())]
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    results["in a pool"] = told(lambda: kept.append(torch.ones(1 << 20, device="cuda")))
print("RESULTS" + json.dumps(results))
"""


@pytest.fixture(scope="module")
def told(run_program: Callable[..., Any]) -> dict[str, Any]:
    return run_program(PROGRAM)


def place(text: str, function: str) -> str:
    (line,) = [number for number, one in enumerate(PROGRAM.splitlines(), 1) if one == text]
    return f"program.py:{line} in {function}"


def test_the_line_is_told_though_a_warm_up_made_cublas_workspace_there(told: dict[str, Any]) -> None:
    (text,) = told["after a warm-up"]
    line = '    kept.append(net(torch.rand(size, 256, device="cuda")))'
    assert text.endswith(place(line, "leave"))


def test_the_line_of_a_small_tensor_is_told_after_however_many_others(told: dict[str, Any]) -> None:
    (text,) = told["after 10,000 others"]
    assert text.endswith(place('    kept.append(torch.ones(1, device="cuda"))', "leave_little"))


def test_what_a_region_kept_was_in_use_at_its_peak(told: dict[str, Any]) -> None:
    assert told["track"] == [8192, 8192]


def test_where_no_line_is_known_it_says_so(told: dict[str, Any]) -> None:
    (text,) = told["in a pool"]
    assert text.startswith("no line is known (")

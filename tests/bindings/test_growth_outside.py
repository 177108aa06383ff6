"""Memory that something outside of PyTorch has taken in the course of a run is why a request does not fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from binding_helpers import MIB, run_python
from frugal_alloc._simulation import simulated_gpu

# Of 2 GiB, 512 MiB are the CUDA context's. Each of eight epochs takes 64 MiB past PyTorch, together more than the GPU's
# context may, yet less beyond what is usual than is missing in the end.
PROGRAM = """
import ctypes, frugal_alloc, torch
frugal_alloc.enable(report_dir={folder!r}, memory_limit={limit!r})
held = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
runtime = ctypes.CDLL(f"libcudart.so.{{torch.version.cuda.split('.')[0]}}")
addresses = []
for epoch in range(8):
    addresses.append(ctypes.c_void_p())
    assert runtime.cudaMalloc(ctypes.byref(addresses[-1]), ctypes.c_size_t({each})) == 0
    frugal_alloc.epoch_end()
if {lets_go}:
    for address in addresses:
        assert runtime.cudaFree(address) == 0
try:
    free = torch.cuda.mem_get_info()[0] if {limit!r} == "off" else 0
    torch.empty(free + (416 << 20), dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    report(text=str(error))
"""


def verdict_and_text(folder: Path, lets_go: bool, limit: str = "off") -> tuple[str, str]:
    environment = simulated_gpu.environment(2048 * MIB)
    program = PROGRAM.format(folder=str(folder), each=64 * MIB, lets_go=lets_go, limit=limit)
    done = run_python(program, **environment)
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())["oom"]["verdict"], " ".join(done["text"].split())


@pytest.mark.parametrize(("lets_go", "verdict"), [(False, "outside"), (True, "too_big")])
def test_what_has_grown_outside_is_the_verdict_while_it_is_there(tmp_path: Path, lets_go: bool, verdict: str) -> None:
    found, text = verdict_and_text(tmp_path, lets_go)
    assert found == verdict, text
    told = re.search(r"Memory outside PyTorch: 1\.00 GiB of the GPU's 2\.00 GiB belong to others", text)
    assert bool(told) == (not lets_go), text
    assert ("448.00 MiB more than 7 epochs ago" in text) == (not lets_go), text


# 424 MiB of the GPU are free.
def test_what_has_grown_outside_is_not_the_verdict_where_a_limit_refuses(tmp_path: Path) -> None:
    found, text = verdict_and_text(tmp_path, lets_go=False, limit="620MiB")
    assert found == "too_big" and "Memory outside PyTorch" not in text, text

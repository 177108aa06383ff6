"""Tensors that another process has shared: who keeps them here is told, and nobody outside is blamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._native.out_of_memory import OutOfMemory
from frugal_alloc._out_of_memory import situation

RECEIVER = """
import json, sys
import frugal_alloc, torch
import torch.multiprocessing as multiprocessing

def send(tensors, wanted):
    frugal_alloc.enable()
    while wanted.get():
        tensors.put(torch.ones(8 << 20, dtype=torch.uint8, device="cuda"))
    torch.cuda.synchronize()
    torch.cuda.ipc_collect()

def receive(keeps):
    frugal_alloc.enable()
    kept = []
    spawn = multiprocessing.get_context("spawn")
    tensors, wanted = spawn.Queue(), spawn.Queue()
    sender = spawn.Process(target=send, args=(tensors, wanted))
    sender.start()
    for epoch in range(12):
        for _ in range(4):
            wanted.put(True)
            tensor = tensors.get()  # leak
            if keeps:
                kept.append(tensor)
        frugal_alloc.epoch_end()
    print("RESULTS" + json.dumps(frugal_alloc.report().document))
    del tensor
    kept.clear()
    wanted.put(False)
    sender.join()

if __name__ == "__main__":
    receive(sys.argv[1] == "keeps")
"""


def test_who_keeps_what_was_received_is_told_with_the_line(run_program: Callable[..., Any]) -> None:
    (told,) = run_program(RECEIVER, "keeps")["verdicts"]
    line = 1 + next(n for n, text in enumerate(RECEIVER.splitlines()) if "# leak" in text)
    assert (told["kind"], told["pattern"], told["line"]) == ("leak", "shared", line)
    assert told["bytes_per_epoch"] == 32 << 20
    assert [row["what"] for row in told["held_by"]] == ["list 'kept'"]
    assert "list 'kept'" in told["advice"] and ".cpu()" in told["advice"]


def test_what_is_received_and_let_go_is_no_leak(run_program: Callable[..., Any]) -> None:
    assert run_program(RECEIVER, "lets go")["verdicts"] == []


@pytest.mark.parametrize(
    "verdict, pattern, told",
    [
        ("outside", "shared", "leak"),
        ("too_big", "shared", "leak"),
        ("too_big", "cuda_graph_per_shape", "leak"),
        # Others may have much besides.
        ("outside", "cuda_graph_per_shape", "outside"),
        ("fragmentation", "shared", "fragmentation"),
    ],
)
def test_an_error_is_a_leaks_where_what_the_library_does_not_know_of_is_enough(
    verdict: str, pattern: str, told: str
) -> None:
    missing = 100 << 20
    facts = OutOfMemory(0, missing, 0, verdict, 0, 0, 0, 0, 1 << 30, 0, 1 << 30, 1 << 30, 0, 0, missing, "", [])
    rows = [{"kind": "leak", "pattern": pattern, "bytes": missing // 2} for _ in range(2)]
    assert situation._verdict(facts, rows) == told
    assert situation._verdict(facts, rows[:1]) == verdict

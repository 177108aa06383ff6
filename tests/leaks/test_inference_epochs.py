"""A leak in inference is found however the program goes through its data, and what is healthy stays silent."""

from __future__ import annotations

import pytest

PROGRAM = """
import asyncio, json, sys
import frugal_alloc, torch
from concurrent.futures import ThreadPoolExecutor
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
frugal_alloc.enable()
data = TensorDataset(torch.rand(64, 128))
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 4096)).cuda().eval()
kept = []

@torch.no_grad()
def predict(inputs):
    output = net(inputs.cuda())
    if sys.argv[2] == "leaks":
        kept.append(output)

def batches(count):
    for _ in range(count):
        yield torch.rand(8, 128)

def loader_made_anew():
    for _ in range(12):
        for (inputs,) in DataLoader(data, 8):
            predict(inputs)

def no_loader():
    for inputs in batches(60):
        predict(inputs)

def futures():
    with ThreadPoolExecutor(1) as pool:
        for inputs in batches(60):
            pool.submit(predict, inputs).result()

def tasks():
    async def one(inputs):
        predict(inputs)
    async def all_of_them():
        for inputs in batches(60):
            await asyncio.create_task(one(inputs))
    asyncio.run(all_of_them())

def one_call():
    global net
    net = nn.Sequential(*(nn.Linear(128, 128) for _ in range(60))).cuda()
    kept.append(net(torch.rand(8, 128).cuda()))

def until_memory_is_out():
    with torch.no_grad():
        for inputs in batches(10_000):
            kept.append(net(inputs.cuda()).repeat(32, 1))

try:
    globals()[sys.argv[1]]()
except torch.OutOfMemoryError as error:
    print("RESULTS" + json.dumps(str(error)))
    sys.exit()
report = frugal_alloc.report()
print("RESULTS" + json.dumps([report.document, str(report)]))
"""
WAYS = {"loader_made_anew": "data_loader", "no_loader": "calls", "futures": "calls", "tasks": "calls"}


@pytest.mark.parametrize("way", WAYS)
def test_outputs_that_are_kept_are_found(run_program, way: str) -> None:
    document, text = run_program(PROGRAM, way, "leaks")
    assert document["epochs"]["found_by"] == WAYS[way], text
    (verdict,) = document["verdicts"]
    assert (verdict["kind"], verdict["held_by"][0]["what"]) == ("leak", "list 'kept'"), text


@pytest.mark.parametrize("way", WAYS)
def test_outputs_that_are_let_go_are_silent(run_program, way: str) -> None:
    document, text = run_program(PROGRAM, way, "healthy")
    assert document["verdicts"] == [], text
    assert text.startswith("frugal_alloc: no leak after"), text


def test_parts_of_one_call_are_not_told_apart(run_program) -> None:
    document, text = run_program(PROGRAM, "one_call", "healthy")
    assert document["verdicts"] == [], text


def test_error_of_a_server_says_that_a_cache_which_still_fills_looks_like_a_leak(run_program) -> None:
    text = run_program(PROGRAM, "until_memory_is_out", "leaks", memory="1GiB")
    sentence = text.splitlines()[1]
    assert sentence.startswith("Leak, or a cache that still fills: what ") and "program.py:52 makes" in sentence, text

"""Tests of a project, and the same after changes that take more memory: each change is one test's."""

from __future__ import annotations

from typing import NamedTuple

HEALTHY = """
import contextlib

import torch
from torch.utils.checkpoint import checkpoint

BATCH = 64


def make_layers(count=4):
    return torch.nn.ModuleList(torch.nn.Linear(512, 512) for _ in range(count)).cuda()


def make_input(rows=BATCH):
    return torch.empty(rows, 512, device="cuda")


def through(layers, x):
    for layer in layers:
        x = torch.tanh(layer(x))
    return x


class Remembering(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = make_layers()

    def forward(self, x):
        wide = torch.cat([x, x])
        return through(self.layers, wide)


def test_keeps_graphs():
    layers, losses = make_layers(), []
    for _ in range(4):
        loss = through(layers, make_input()).mean()
        losses.append(loss.detach())


def test_without_no_grad():
    layers, x = make_layers(), make_input()
    with torch.no_grad():
        for layer in layers:
            x = torch.sigmoid(layer(x))


def test_more_state():
    layers = make_layers()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for _ in range(2):
        through(layers, make_input()).sum().backward()
        optimizer.step()


def test_larger_batch():
    layers = make_layers()
    x = make_input(rows=64)
    for layer in layers:
        x = torch.relu(layer(x))


def test_double():
    x = torch.ones(1000, 512, device="cuda", dtype=torch.float32)
    y = x * 2
    return (x + y).sum()


def test_clone():
    x = make_input(rows=2000)
    y = x
    y.add_(1)
    return x, y


def test_retained_buffer():
    model = Remembering()
    for _ in range(3):
        model(make_input())


def test_gradients():
    layers = make_layers(8)
    for _ in range(3):
        layers.zero_grad()
        y = make_input(rows=4096)
        for layer in layers:
            y = torch.tanh(layer(y))
        y.sum().backward()
        del y


def block(layer, x):
    x = torch.sin(layer(x))
    return torch.cos(x)


def test_checkpoint():
    layers, x = make_layers(), make_input(rows=1024)
    for layer in layers:
        x = checkpoint(block, layer, x, use_reentrant=False)
    x.sum().backward()


def test_odd_sizes():
    sizes = [5 << 20] * 24
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    return kept


def test_driver_calls():
    for _ in range(5):
        make_input()


def test_untouched():
    layers = make_layers()
    through(layers, make_input()).sum().backward()
"""


class Change(NamedTuple):
    """What is replaced, by what, and where it is to be told."""

    old: str
    new: str
    #: Part of the line that takes more; "": no line does.
    line: str
    figure: str = "peak"


CHANGES = {
    "test_keeps_graphs": Change("losses.append(loss.detach())", "losses.append(loss)", "x = torch.tanh(layer(x))"),
    "test_without_no_grad": Change("torch.no_grad()", "contextlib.nullcontext()", "x = torch.sigmoid(layer(x))"),
    "test_more_state": Change(
        "torch.optim.SGD(layers.parameters(), lr=0.1)",
        "torch.optim.Adam(layers.parameters(), lr=0.1)",
        "optimizer.step()",
    ),
    "test_larger_batch": Change("make_input(rows=64)", "make_input(rows=96)", "x = torch.relu(layer(x))"),
    "test_double": Change("dtype=torch.float32", "dtype=torch.float64", "dtype=torch.float64"),
    "test_clone": Change("    y = x\n", "    y = x.clone()\n", "y = x.clone()"),
    "test_retained_buffer": Change(
        "        wide = torch.cat([x, x])\n",
        "        wide = torch.cat([x, x])\n        self.seen = [*getattr(self, 'seen', []), wide]\n",
        "wide = torch.cat([x, x])",
    ),
    "test_gradients": Change("layers.zero_grad()", "layers.zero_grad(set_to_none=False)", "y = torch.tanh(layer(y))"),
    "test_checkpoint": Change(
        "x = checkpoint(block, layer, x, use_reentrant=False)", "x = block(layer, x)", "x = torch.sin(layer(x))"
    ),
    "test_odd_sizes": Change("[5 << 20] * 24", "[7 << 20] * 17", "kept = [torch.empty", "waste"),
    "test_driver_calls": Change(
        "        make_input()\n", "        make_input()\n        torch.cuda.empty_cache()\n", "", "calls"
    ),
}


def changed() -> str:
    text = HEALTHY
    for change in CHANGES.values():
        assert text.count(change.old) == 1, change.old
        text = text.replace(change.old, change.new)
    # What stands above moves all lines.
    return text.replace("BATCH = 64", "# The rows of an input.\nBATCH = 64")


def line_of(name: str, text: str) -> int:
    """The number of the line at which a change is to be told."""
    (number,) = [number for number, line in enumerate(text.splitlines(), 1) if CHANGES[name].line in line]
    return number

"""The programs whose speed is compared on a real GPU, each in bf16: what people run, in the sizes in which they run it.

As in workloads.py data comes about on the GPU, and a generator of Python's decides over shapes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from . import workloads
from .workloads import Gpt2, Step, descend


class Program(NamedTuple):
    title: str
    #: Takes the generator of shapes, and whether it is to be small; gives the function of one step.
    build: Callable[[random.Random, bool], Step]
    #: Modules and programs without which it cannot be tried; of the programs one is enough.
    modules: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


def small() -> Gpt2:
    """To see that all works."""
    return Gpt2(layers=2, width=128, heads=2, words=1000)


def _medium() -> Gpt2:
    return Gpt2(layers=24, width=1024, heads=16)


def _trains(shapes: random.Random, quick: bool) -> Step:
    model = (small() if quick else _medium()).cuda()
    return workloads.train_gpt2(model, 2 if quick else 8, workloads.lengths(shapes, quick))


def _is_compiled(shapes: random.Random, quick: bool) -> Step:
    """Texts of one length, as CUDA graphs want them."""
    model = (small() if quick else Gpt2()).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    step = workloads.train_gpt2(compiled, 2 if quick else 8, lambda: 64 if quick else 512)

    def marked() -> None:
        torch.compiler.cudagraph_mark_step_begin()
        step()

    return marked


def _generates(shapes: random.Random, quick: bool) -> Step:
    """A step answers a batch of prompts; keys and values of what was said grow with each token, by torch.cat."""
    model = (small() if quick else _medium()).cuda().bfloat16().eval()
    batch, count = (2, 4) if quick else (16, 48)

    @torch.no_grad()
    def step() -> None:
        known: list[torch.Tensor | None] = [None] * len(model.layers)
        length, done = 8 * (shapes.randint(1, 4) if quick else shapes.randint(4, 64)), 0
        tokens = torch.randint(model.words.num_embeddings, (batch, length), device="cuda")
        for _ in range(count):
            places = torch.arange(done, done + tokens.shape[1], device="cuda")
            hidden = model.words(tokens) + model.places(places)
            for number, layer in enumerate(model.layers):
                hidden, known[number] = _attended(layer, hidden, known[number])
            done += tokens.shape[1]
            tokens = F.linear(model.norm(hidden[:, -1:]), model.words.weight).argmax(-1)

    return step


def _attended(
    layer: nn.Module, hidden: torch.Tensor, known: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What a layer makes of new tokens, and the keys and values of all that are known now."""
    batch, length, width = hidden.shape
    parts = layer.attend(layer.norms[0](hidden)).view(batch, length, 3, layer.heads, width // layer.heads)
    query, *new = parts.permute(2, 0, 3, 1, 4)
    grown = torch.stack(new) if known is None else torch.cat([known, torch.stack(new)], dim=3)
    mixed = F.scaled_dot_product_attention(query, grown[0], grown[1], is_causal=known is None)
    hidden = hidden + layer.project(mixed.transpose(1, 2).reshape(batch, length, width))
    return hidden + layer.perceptron(layer.norms[1](hidden)), grown


class _Messages(nn.Module):
    """One layer of a graph network: each node adds up what its neighbours send."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.send, self.keep = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        sent = self.send(nodes)[edges[0]]
        kept = self.keep(nodes)
        return F.relu(kept.index_add(0, edges[1], sent))


def _graphs(shapes: random.Random, quick: bool) -> Step:
    """A sampled part of a graph in each step, as large as it happens to be; a step takes about 3 ms."""
    width, scale = (16, 100) if quick else (256, 1)
    layers = nn.ModuleList(_Messages(width) for _ in range(3)).cuda()
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)

    def step() -> None:
        count = shapes.randint(20_000, 60_000) // scale
        nodes = torch.randn(count, width, device="cuda")
        edges = torch.randint(count, (2, 4 * count), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for layer in layers:
                nodes = layer(nodes, edges)
        descend(optimizer, nodes.float().square().mean())

    return step


def _many_tensors(shapes: random.Random, quick: bool) -> Step:
    """The host decides over its speed."""
    held = [torch.randn(1024, device="cuda", dtype=torch.bfloat16) for _ in range(20 if quick else 1000)]
    optimizer = torch.optim.AdamW(held, lr=1e-4, foreach=False)

    def step() -> None:
        for tensor in held:
            tensor.grad = torch.ones_like(tensor)
        optimizer.step()

    return step


_COMPILERS = ("cc", "gcc", "clang")
#: In the order in which they are measured: what is compiled comes last, since it needs time to be ready.
PROGRAMS = {
    "gpt2": Program("GPT-2 medium", _trains),
    "resnet50": Program(
        "ResNet-50", lambda shapes, quick: workloads.build("resnet50", shapes, quick), ("torchvision",)
    ),
    "fasterrcnn": Program(
        "Faster R-CNN", lambda shapes, quick: workloads.build("fasterrcnn_bf16", shapes, quick), ("torchvision",)
    ),
    "graphs": Program("graph network", _graphs),
    "generation": Program("generation", _generates),
    "many_tensors": Program("1,000 tensors, no foreach", _many_tensors),
    "compiled": Program("GPT-2, reduce-overhead", _is_compiled, ("triton",), _COMPILERS),
}

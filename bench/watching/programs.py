"""The trainings whose steps are timed: many operators on few numbers, since no kernel computes anything."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import nn

from ..training.workloads import Gpt2

EPOCH = 40
# A model, and the loss of its next batch.
Training = tuple[nn.Module, Callable[[], torch.Tensor]]


def steps(name: str) -> Iterator[None]:
    """Makes one step of the program each time that it is asked for the next; an epoch is a pass over a loader."""
    model, loss_of_next = PROGRAMS[name](random.Random(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(range(EPOCH), batch_size=None)
    while True:
        for _ in loader:
            optimizer.zero_grad()
            loss_of_next().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            yield


def _tokens(shapes: random.Random) -> torch.Tensor:
    return torch.randint(1000, (4, 8 * shapes.randint(4, 16)), device="cuda")


def _gpt2(shapes: random.Random) -> Training:
    model = Gpt2(layers=12, width=64, heads=4, words=1000).cuda()

    def loss_of_next() -> torch.Tensor:
        tokens = _tokens(shapes)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    return model, loss_of_next


def _dpo(shapes: random.Random) -> Training:
    """A policy and a frozen reference judge an answer that was chosen and one that was rejected."""
    policy, reference = (Gpt2(layers=6, width=64, heads=4, words=1000).cuda() for _ in range(2))

    def likelihood(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens)[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None]).sum((1, 2))

    def loss_of_next() -> torch.Tensor:
        chosen, rejected = _tokens(shapes), _tokens(shapes)
        with torch.no_grad():
            before = likelihood(reference, chosen) - likelihood(reference, rejected)
        now = likelihood(policy, chosen) - likelihood(policy, rejected)
        return -F.logsigmoid(0.1 * (now - before)).mean()

    return policy, loss_of_next


def _resnet50(shapes: random.Random) -> Training:
    import torchvision

    model = torchvision.models.resnet50().cuda()

    def loss_of_next() -> torch.Tensor:
        images = torch.rand(shapes.randint(1, 4), 3, 64, 64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(model(images), torch.randint(1000, (len(images),), device="cuda"))

    return model, loss_of_next


def _graphs(shapes: random.Random) -> Training:
    """Batches of molecules through a graph network, written by hand as PyTorch Geometric's GIN is."""
    width = 64
    embed, judge = nn.Linear(16, width), nn.Linear(width, 1)
    layers = [nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()) for _ in range(8)]
    model = nn.ModuleList([embed, *layers, judge]).cuda()

    def loss_of_next() -> torch.Tensor:
        count = shapes.randint(400, 900)
        hidden = embed(torch.rand(count, 16, device="cuda"))
        to, of = torch.randint(count, (2, 2 * count + shapes.randint(0, 200)), device="cuda")
        for layer in layers:
            hidden = layer(hidden + torch.zeros_like(hidden).index_add(0, to, hidden[of]))
        graph = torch.randint(32, (count,), device="cuda")
        sums = hidden.new_zeros(32, width).index_add(0, graph, hidden)
        return F.binary_cross_entropy_with_logits(judge(sums), torch.rand(32, 1, device="cuda"))

    return model, loss_of_next


PROGRAMS = {"gpt2": _gpt2, "dpo": _dpo, "resnet50": _resnet50, "graphs": _graphs}

"""Small trainings of every kind, as people write them: ``python fitted_programs.py NAME[:ARGUMENT...]``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH = 512


def batches(*shape: int) -> Iterator[torch.Tensor]:
    for _ in itertools.count():  # --steps ends it
        yield torch.randn(*shape).cuda()


def model(layers: int = 4) -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(layers))).cuda()


def plain() -> None:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    for batch in batches(256, WIDTH):
        loss = net(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def convolutions() -> None:
    net = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU()).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for batch in batches(8, 3, 64, 64):
        net(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def checkpointed() -> None:
    net = model(8)
    optimizer = torch.optim.Adam(net.parameters())
    for batch in batches(512, WIDTH):
        for layer in net:
            batch = checkpoint(layer, batch, use_reentrant=False)
        batch.mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def accumulating_first() -> None:
    """Many calls of the model before the first step."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    for number, batch in enumerate(batches(64, WIDTH)):
        net(batch).mean().backward()
        if number % 16 == 15:
            optimizer.step()
            optimizer.zero_grad()


def half_precision() -> None:
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for batch in batches(256, WIDTH):
        with torch.autocast("cuda", torch.float16):
            loss = net(batch).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def wide_batch(precision: torch.dtype = torch.float32) -> None:
    """Results that outweigh the parameters."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for batch in batches(8192, WIDTH):
        with torch.autocast("cuda", precision, enabled=precision.itemsize == 2):
            loss = net(batch).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def wide_batch_in_half() -> None:
    wide_batch(torch.bfloat16)


def attention() -> None:
    embed, project = nn.Embedding(1000, WIDTH).cuda(), nn.Linear(WIDTH, 3 * WIDTH).cuda()
    optimizer = torch.optim.AdamW([*embed.parameters(), *project.parameters()])
    for _ in itertools.count():
        tokens = torch.randint(0, 1000, (4, 128)).cuda()
        query, key, value = project(embed(tokens)).view(4, 128, 3, 8, 64).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        logits = mixed.transpose(1, 2).reshape(4 * 128, WIDTH) @ embed.weight.T
        functional.cross_entropy(logits, tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def language_model(batch: str, options: str) -> None:
    """Its loss takes as much as its layers, and lies in no checkpoint."""
    words, head = nn.Embedding(16000, WIDTH).cuda(), nn.Linear(WIDTH, 16000).cuda()
    layers = [nn.TransformerEncoderLayer(WIDTH, 8, batch_first=True).cuda() for _ in range(6)]
    optimizer = torch.optim.SGD([one for part in (words, head, *layers) for one in part.parameters()], 0.1)
    for _ in itertools.count():
        tokens = torch.randint(0, 16000, (int(batch), 128), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=options == "half precision"):
            results = words(tokens)
            for layer in layers:
                results = checkpoint(layer, results, use_reentrant=False) if "check" in options else layer(results)
            loss = functional.cross_entropy(head(results).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def with_evaluation() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for batch in batches(128, WIDTH):
        net.train()
        net(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        net.eval()
        with torch.no_grad():
            net(torch.randn(1024, WIDTH, device="cuda"))


def accumulated() -> None:
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    for number, batch in enumerate(batches(128, WIDTH)):
        net(batch).mean().backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def two_optimizers() -> None:
    generator, critic = model(2), model(2)
    first, second = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for batch in batches(128, WIDTH):
        made = generator(batch)
        second.zero_grad()
        critic(made.detach()).mean().backward()
        second.step()
        first.zero_grad()
        critic(made).mean().backward()
        first.step()


def frozen() -> None:
    net, adapter = model().requires_grad_(False), nn.Linear(WIDTH, 8).cuda()
    optimizer = torch.optim.AdamW(adapter.parameters())
    for batch in batches(256, WIDTH):
        adapter(net(batch)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def by_hand() -> None:
    """A model that is no module, and no optimizer."""
    weight = torch.randn(WIDTH, WIDTH, device="cuda", requires_grad=True)
    for batch in batches(256, WIDTH):
        (batch @ weight).relu().mean().backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None


def second_stream() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    side = torch.cuda.Stream()
    for batch in batches(256, WIDTH):
        with torch.cuda.stream(side):
            copied = batch * 2
        torch.cuda.current_stream().wait_stream(side)
        copied.record_stream(torch.cuda.current_stream())
        net(copied).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def inference() -> None:
    net = model().eval()
    with torch.inference_mode():
        for _ in range(7):
            net(torch.randn(256, WIDTH, device="cuda"))


def forever() -> None:
    """Calls of a model without an end, and no steps."""
    net = model().eval()
    with torch.no_grad():
        while True:
            net(torch.randn(256, WIDTH, device="cuda"))


def selecting() -> None:
    net = model(1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for batch in batches(4096, WIDTH):
        result = net(batch)
        result[result.sum(1) > 0].mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def large() -> None:
    """16 GiB of parameters, 64 with gradients and states."""
    with torch.device("cuda"):
        net = nn.Sequential(*(nn.Linear(16384, 16384, bias=False) for _ in range(16)))
    optimizer = torch.optim.AdamW(net.parameters())
    for batch in batches(8, 16384):
        net(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def one_request() -> None:
    torch.empty(20 << 30, dtype=torch.uint8, device="cuda")


def with_a_bug() -> None:
    net = model()
    net(torch.randn(4, WIDTH + 1, device="cuda"))


def without_a_gpu() -> None:
    nn.Linear(3, 3)(torch.randn(2, 3)).mean().backward()


if __name__ == "__main__":
    called, *arguments = sys.argv[1].split(":")
    globals()[called](*arguments)

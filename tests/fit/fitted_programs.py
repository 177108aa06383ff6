"""Small trainings of every kind, as people write them: ``python fitted_programs.py NAME[:ARGUMENT...]``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator

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


def learn(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


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
        learn(batch.mean(), optimizer)


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


def wide_batch(options: str) -> None:
    """Results that outweigh the parameters."""
    net = model(16)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for batch in batches(8192, WIDTH):
        for layer in net:
            batch = checkpoint(layer, batch, use_reentrant=False) if "checkpoints" in options else layer(batch)
        learn(batch.mean(), optimizer)


def attention() -> None:
    embed, project = nn.Embedding(1000, WIDTH).cuda(), nn.Linear(WIDTH, 3 * WIDTH).cuda()
    optimizer = torch.optim.AdamW([*embed.parameters(), *project.parameters()])
    for _ in itertools.count():
        tokens = torch.randint(0, 1000, (4, 128)).cuda()
        query, key, value = project(embed(tokens)).view(4, 128, 3, 8, 64).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        logits = mixed.transpose(1, 2).reshape(4 * 128, WIDTH) @ embed.weight.T
        learn(functional.cross_entropy(logits, tokens.flatten()), optimizer)


class EightBits(torch.optim.Optimizer):
    """Has Adam's two states as bitsandbytes has them: numbers of 8 bits, and of each 256 a factor."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            for name in ("first", "second") if not state else ():
                state[name] = torch.zeros_like(parameter, dtype=torch.uint8)
                state[f"{name}_factors"] = torch.zeros(-(-parameter.numel() // 256), device="cuda")
            parameter.sub_(parameter.grad, alpha=0.1)


def language_model(batch: str, options: str) -> None:
    """Its loss takes as much as its layers, and lies in no checkpoint."""
    words, head = nn.Embedding(16000, WIDTH).cuda(), nn.Linear(WIDTH, 16000).cuda()
    norm = {"norm_first": "norm first" in options}
    layers = [nn.TransformerEncoderLayer(WIDTH, 8, batch_first=True, **norm).cuda() for _ in range(6)]
    parameters = [one for part in (words, head, *layers) for one in part.parameters()]
    optimizer = torch.optim.SGD(parameters, 0.1)

    def loss_of(results: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(head(results).flatten(0, 1), tokens.flatten())

    for _ in itertools.count():
        tokens = torch.randint(0, 16000, (int(batch), 128), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled="half precision" in options):
            results = words(tokens)
            for layer in layers:
                results = checkpoint(layer, results, use_reentrant=False) if "check" in options else layer(results)
            if "chunks" in options:
                parts = zip(results.chunk(8), tokens.chunk(8), strict=True)
                loss = sum(checkpoint(loss_of, *part, use_reentrant=False) for part in parts)
            else:
                loss = loss_of(results, tokens)
        learn(loss, optimizer)


def wide_layers(options: str) -> None:
    """Parameters that outweigh all else."""
    net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
    if "half" in options:
        net.bfloat16()
    batch = torch.randn(2048 if "large batch" in options else 16, 2048, device="cuda", dtype=net[0].weight.dtype)
    if "8 bits" in options:
        optimizer: torch.optim.Optimizer = EightBits(net.parameters())
    else:
        optimizer = torch.optim.AdamW(net.parameters(), fused="fused" in options or None)
    if "each" in options:
        optimizers = {one: torch.optim.AdamW([one], fused="fused" in options or None) for one in net.parameters()}

        def step(parameter: nn.Parameter) -> None:
            optimizers[parameter].step()
            parameter.grad = None

        for one in net.parameters():
            one.register_post_accumulate_grad_hook(step)
    for _ in itertools.count():
        if "before" in options:
            optimizer.zero_grad()
        loss = net(batch).square().mean()
        if "before" not in options:
            optimizer.zero_grad()
        loss.backward()
        if "each" not in options:
            optimizer.step()


def with_evaluation() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for batch in batches(128, WIDTH):
        net.train()
        learn(net(batch).mean(), optimizer)
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
        learn(adapter(net(batch)).mean(), optimizer)


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
        learn(net(copied).mean(), optimizer)


def leaking() -> None:
    """A graph of each step is kept for ever."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    total = torch.zeros((), device="cuda")
    for batch in batches(1024, WIDTH):
        loss = net(batch).mean()
        learn(loss, optimizer)
        total = total + net(batch).mean()


def leaking_of_all_lengths() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    kept = []
    for number in itertools.count():
        results = net(torch.randn(1024 * (1 + number * 7 % 5), WIDTH, device="cuda"))
        learn(results.mean(), optimizer)
        kept.append(results.detach())


def joining() -> None:
    """The results of all steps are one tensor."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    joined = torch.empty(0, WIDTH, device="cuda")
    for batch in batches(2048, WIDTH):
        results = net(batch)
        learn(results.mean(), optimizer)
        joined = torch.cat([joined, results.detach()])


def of_all_lengths() -> None:
    """Texts that a loader pads to the longest of each batch, one of which is long and comes late."""
    texts = [torch.zeros(900 if number == 41 else 50 + number * 10 % 260) for number in range(48)]
    loader = torch.utils.data.DataLoader(
        texts, batch_size=4, collate_fn=lambda batch: nn.utils.rnn.pad_sequence(batch, batch_first=True)
    )
    net = nn.Sequential(nn.Linear(1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for batch in loader:
        results = net(batch.cuda().unsqueeze(-1))
        learn(results.mean(), optimizer)


def filling_a_cache() -> None:
    """Of as many tables as there are lengths."""
    net, tables, losses = model(), {}, []
    optimizer = torch.optim.Adam(net.parameters())
    for number, batch in enumerate(batches(256, WIDTH)):
        length = min(number, 4)
        if length not in tables:
            tables[length] = torch.randn(64 << 18, device="cuda")
        loss = net(batch).mean() + tables[length].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())


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
        learn(result[result.sum(1) > 0].mean(), optimizer)


def large() -> None:
    """16 GiB of parameters, 64 with gradients and states."""
    with torch.device("cuda"):
        net = nn.Sequential(*(nn.Linear(16384, 16384, bias=False) for _ in range(16)))
    optimizer = torch.optim.AdamW(net.parameters())
    for batch in batches(8, 16384):
        learn(net(batch).mean(), optimizer)


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

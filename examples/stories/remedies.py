"""Measures what people are told to do when memory runs out: the peak before, and the peak after.

    frugal-alloc simulate --memory 16GiB -- python examples/stories/remedies.py

prints the table of docs/out_of_memory.md. Sizes do not depend on values, so none are computed. On a machine with a GPU,
`python examples/stories/remedies.py` measures that one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import frugal_alloc
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

MIB = 1 << 20
BATCH = 32
TOKENS = 64
WIDTH = 512
BLOCKS = 6


class Block(nn.Module):
    """The feed-forward half of a transformer's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + self.narrow(nn.functional.gelu(self.widen(self.norm(values))))


class DeletingBlock(Block):
    """The same, with a `del` after each use of an intermediate result."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        normal = self.norm(values)
        wide = self.widen(normal)
        del normal
        active = nn.functional.gelu(wide)
        del wide
        narrow = self.narrow(active)
        del active
        return values + narrow


class Model(nn.Module):
    def __init__(self, block: type[Block] = Block, checkpointed: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, 1000)
        self.checkpointed = checkpointed

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            values = checkpoint(block, values, use_reentrant=False) if self.checkpointed else block(values)
        return self.head(values)


def batch(size: int = BATCH) -> torch.Tensor:
    return torch.randn(size, TOKENS, WIDTH, device="cuda")


class Training:
    """A model, its optimizer, and steps that differ in one thing each."""

    def __init__(self, block: type[Block] = Block, checkpointed: bool = False, optimizer: type = torch.optim.AdamW):
        self.model = Model(block, checkpointed).cuda()
        self.optimizer = optimizer(self.model.parameters(), lr=1e-4)

    def step(self, size: int = BATCH, *, parts: int = 1, dtype: torch.dtype | None = None) -> None:
        self.optimizer.zero_grad()
        for _ in range(parts):
            with torch.autocast("cuda", dtype or torch.float32, enabled=dtype is not None):
                loss = self.model(batch(size // parts)).float().square().mean() / parts
            loss.backward()
            del loss
        self.optimizer.step()

    def learn(self, values: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(values.cuda()).square().mean().backward()
        self.optimizer.step()


def steps(count: int = 2, size: int = BATCH, **options: object) -> None:
    """A few steps; `options` are those of a training or of its steps."""
    of_training = {name: options.pop(name) for name in ("block", "checkpointed", "optimizer") if name in options}
    training = Training(**of_training)
    for _ in range(count):
        training.step(size, **options)


def zeroed(set_to_none: bool | None) -> None:
    """With zero_grad() so; None: without it."""
    training = Training()
    for _ in range(6):
        if set_to_none is not None:
            training.optimizer.zero_grad(set_to_none=set_to_none)
        training.model(batch()).square().mean().backward()
        training.optimizer.step()


def rebound(delete: bool) -> None:
    for _ in range(3):
        helper = torch.zeros(256 * MIB // 4, device="cuda")
        helper += 1
        if delete:
            del helper


def evaluation(mode: Callable[[], AbstractContextManager]) -> None:
    model = Model().cuda().eval()
    for _ in range(3):
        with mode():
            model(batch())


def summed_loss(add: Callable[[torch.Tensor], object]) -> None:
    model, total = Model().cuda().eval(), 0
    for _ in range(8):
        total = total + add(model(batch()).square().mean())


def data_on_gpu(whole: bool) -> None:
    training = Training()
    data = [torch.randn(BATCH, TOKENS, WIDTH, device="cuda" if whole else "cpu") for _ in range(32)]
    for values in data[:3]:
        training.learn(values)


def loaded(workers: int, pin: bool) -> None:
    training = Training()
    data = torch.utils.data.TensorDataset(torch.randn(3 * BATCH, TOKENS, WIDTH))
    for (values,) in torch.utils.data.DataLoader(data, BATCH, num_workers=workers, pin_memory=pin):
        training.learn(values)


def emptied(empty: bool) -> None:
    training = Training()
    for _ in range(3):
        training.step()
        if empty:
            torch.cuda.empty_cache()


class Remedy(NamedTuple):
    """Advice, and what is run with and without it: a function with these arguments."""

    advice: str
    run: Callable[..., None]
    before: tuple
    after: tuple
    saves: str


def trained(advice: str, saves: str, **options: object) -> Remedy:
    return Remedy(advice, lambda options: steps(**options), ({},), (options,), saves)


REMEDIES = (
    trained("half the batch", "half of the activations", size=BATCH // 2),
    trained(
        "gradient accumulation: 4 parts of the same batch",
        "three quarters of the activations",
        parts=4,
    ),
    trained("checkpointing of each block", "activations inside the blocks", checkpointed=True),
    trained("autocast to bfloat16", "part of the activations", dtype=torch.bfloat16),
    trained("SGD instead of AdamW", "two copies of the weights", optimizer=torch.optim.SGD),
    Remedy("`no_grad` around evaluation", evaluation, (torch.enable_grad,), (torch.no_grad,), "every activation"),
    Remedy(
        "`loss.item()` where evaluation sums 8 losses",
        summed_loss,
        (lambda loss: loss,),
        (lambda loss: loss.item(),),
        "the graph of every step",
    ),
    Remedy("`del` before a name is bound again in a loop", rebound, (False,), (True,), "one copy"),
    trained("`del` of intermediates inside `forward`", "nothing: autograd holds them", block=DeletingBlock),
    Remedy("the `zero_grad` that was missing", zeroed, (None,), (False,), "nothing: gradients add up in place"),
    Remedy(
        "`zero_grad(set_to_none=True)`, peak of the step",
        zeroed,
        (False,),
        (True,),
        "one copy of the weights",
    ),
    Remedy("the data set left on the host", data_on_gpu, (True,), (False,), "the data set"),
    Remedy("`num_workers=0` instead of 2", loaded, (2, False), (0, False), "nothing: workers live on the host"),
    Remedy("`pin_memory=False`", loaded, (0, True), (0, False), "nothing: pinned memory is the host's"),
    Remedy("`empty_cache()` after each step", emptied, (False,), (True,), "nothing here"),
)


def peak_bytes(run: Callable[..., None], arguments: tuple) -> int:
    """The most bytes in tensors while it runs, beyond what was there before."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(*arguments)
    return torch.cuda.max_memory_allocated() - before


def table() -> list[str]:
    lines = ["| advice | peak before | after | what it saves |", "| --- | ---: | ---: | --- |"]
    for remedy in REMEDIES:
        before, after = (f"{peak_bytes(remedy.run, given) / MIB:,.0f} MiB" for given in (remedy.before, remedy.after))
        lines.append(f"| {remedy.advice} | {before} | {after} | {remedy.saves} |")
    return lines


if __name__ == "__main__":
    torch.manual_seed(0)
    frugal_alloc.enable()
    steps(1)  # cuBLAS takes its workspace
    print("\n".join(table()))

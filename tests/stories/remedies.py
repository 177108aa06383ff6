"""Measures what people are told to do when memory runs out: the peak before, and the peak after.

    frugal-alloc simulate --memory 16GiB -- python tests/stories/remedies.py

prints the table of docs/out_of_memory.md. Sizes do not depend on values, so none are computed. On a machine with a GPU,
`python tests/stories/remedies.py` measures that one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
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


def batch(size: int = BATCH, tokens: int = TOKENS) -> torch.Tensor:
    return torch.randn(size, tokens, WIDTH, device="cuda")


class Training:
    """A model, its optimizer, and steps that differ in one thing each."""

    def __init__(self, block: type[Block] = Block, checkpointed: bool = False, optimizer: type = torch.optim.AdamW):
        self.model = Model(block, checkpointed).cuda()
        self.optimizer = optimizer(self.model.parameters(), lr=1e-4)

    def step(
        self, size: int = BATCH, *, parts: int = 1, dtype: torch.dtype | None = None, tokens: int = TOKENS
    ) -> None:
        self.optimizer.zero_grad()
        for _ in range(parts):
            with torch.autocast("cuda", dtype or torch.float32, enabled=dtype is not None):
                loss = self.model(batch(size // parts, tokens)).float().square().mean() / parts
            loss.backward()
            del loss
        self.optimizer.step()


def steps(count: int = 2, size: int = BATCH, **options: object) -> Callable[[], None]:
    """A few steps; `options` are those of a training or of its steps."""
    of_training = {name: options.pop(name) for name in ("block", "checkpointed", "optimizer") if name in options}

    def run() -> None:
        training = Training(**of_training)
        for _ in range(count):
            training.step(size, **options)

    return run


def without_zero_grad() -> None:
    training = Training()
    for _ in range(6):
        training.model(batch()).square().mean().backward()
        training.optimizer.step()


def with_zero_grad(set_to_none: bool) -> Callable[[], None]:
    def run() -> None:
        training = Training()
        for _ in range(6):
            training.optimizer.zero_grad(set_to_none=set_to_none)
            training.model(batch()).square().mean().backward()
            training.optimizer.step()

    return run


def between_steps(set_to_none: bool) -> Callable[[], None]:
    """What another model finds taken between two steps."""

    def run() -> None:
        training = Training()
        training.step()
        training.optimizer.zero_grad(set_to_none=set_to_none)
        torch.cuda.reset_peak_memory_stats()

    return run


def rebound(delete: bool) -> Callable[[], None]:
    def run() -> None:
        for _ in range(3):
            helper = torch.zeros(256 * MIB // 4, device="cuda")
            helper += 1
            if delete:
                del helper

    return run


def outputs_kept_into_next_step(delete: bool) -> Callable[[], None]:
    def run() -> None:
        model, optimizer = Model().cuda(), torch.optim.SGD([torch.zeros(1, requires_grad=True)])
        for _ in range(3):
            data = batch()
            output = model(data)
            loss = output.square().mean()
            loss.backward()
            optimizer.zero_grad()
            model.zero_grad()
            if delete:
                del data, output, loss

    return run


def evaluation(mode: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        model = Model().cuda().eval()
        for _ in range(3):
            with mode():
                model(batch())

    return run


def summed_loss(add: Callable[[torch.Tensor], object]) -> Callable[[], None]:
    def run() -> None:
        model, total = Model().cuda().eval(), 0
        for _ in range(8):
            total = total + add(model(batch()).square().mean())

    return run


def data_on_gpu(whole: bool) -> Callable[[], None]:
    def run() -> None:
        training = Training()
        data = [torch.randn(BATCH, TOKENS, WIDTH, device="cuda" if whole else "cpu") for _ in range(32)]
        for values in data[:3]:
            training.optimizer.zero_grad()
            training.model(values.cuda()).square().mean().backward()
            training.optimizer.step()

    return run


def copied_inputs(copies: bool) -> Callable[[], None]:
    def run() -> None:
        model = Model().cuda()
        for _ in range(2):
            values = batch(8 * BATCH)
            inputs = values.clone().to("cuda") if copies else values
            with torch.no_grad():
                model(inputs)

    return run


def loaded(workers: int, pin: bool) -> Callable[[], None]:
    def run() -> None:
        training = Training()
        data = torch.utils.data.TensorDataset(torch.randn(3 * BATCH, TOKENS, WIDTH))
        for (values,) in torch.utils.data.DataLoader(data, BATCH, num_workers=workers, pin_memory=pin):
            training.optimizer.zero_grad()
            training.model(values.cuda()).square().mean().backward()
            training.optimizer.step()

    return run


def emptied(empty: bool) -> Callable[[], None]:
    def run() -> None:
        training = Training()
        for _ in range(3):
            training.step()
            if empty:
                torch.cuda.empty_cache()

    return run


class Remedy(NamedTuple):
    advice: str
    before: Callable[[], None]
    after: Callable[[], None]
    saves: str


REMEDIES = (
    Remedy("half the batch", steps(), steps(size=BATCH // 2), "half of the activations; no weights or optimizer state"),
    Remedy(
        "gradient accumulation: 4 parts of the same batch",
        steps(),
        steps(parts=4),
        "activations of three quarters of the batch; gradients stay",
    ),
    Remedy("checkpointing of each block", steps(), steps(checkpointed=True), "activations inside the blocks"),
    Remedy(
        "autocast to bfloat16",
        steps(),
        steps(dtype=torch.bfloat16),
        "part of the activations; copies of the weights come on top",
    ),
    Remedy("half the sequence, or smaller images", steps(), steps(tokens=TOKENS // 2), "as half the batch"),
    Remedy("SGD instead of AdamW", steps(), steps(optimizer=torch.optim.SGD), "two copies of the weights"),
    Remedy("`no_grad` around evaluation", evaluation(torch.enable_grad), evaluation(torch.no_grad), "every activation"),
    Remedy(
        "`inference_mode` instead of `no_grad`",
        evaluation(torch.no_grad),
        evaluation(torch.inference_mode),
        "nothing more",
    ),
    Remedy(
        "`loss.item()` where evaluation sums 8 losses",
        summed_loss(lambda loss: loss),
        summed_loss(lambda loss: loss.item()),
        "the graph of every step",
    ),
    Remedy("`del` before a name is bound again in a loop", rebound(False), rebound(True), "one copy: it was no leak"),
    Remedy(
        "`del data, output, loss` after each step",
        outputs_kept_into_next_step(False),
        outputs_kept_into_next_step(True),
        "nothing here: the next ones take their place before the peak, in backward",
    ),
    Remedy(
        "`del` of intermediates inside `forward`", steps(), steps(block=DeletingBlock), "nothing: autograd holds them"
    ),
    Remedy(
        "the `zero_grad` that was missing",
        without_zero_grad,
        with_zero_grad(False),
        "nothing: gradients add up in place",
    ),
    Remedy(
        "`zero_grad(set_to_none=True)`, peak of the step",
        with_zero_grad(False),
        with_zero_grad(True),
        "one copy of the weights, unless gradients accumulate",
    ),
    Remedy("the same, between two steps", between_steps(False), between_steps(True), "one copy of the weights"),
    Remedy("the data set left on the host", data_on_gpu(True), data_on_gpu(False), "the data set"),
    Remedy("no `clone()` before `.to(device)`", copied_inputs(True), copied_inputs(False), "one batch of inputs"),
    Remedy("`num_workers=0` instead of 2", loaded(2, False), loaded(0, False), "nothing: workers live on the host"),
    Remedy("`pin_memory=False`", loaded(0, True), loaded(0, False), "nothing: pinned memory is the host's"),
    Remedy("`empty_cache()` after each step", emptied(False), emptied(True), "nothing here; other processes get more"),
)


def peak_bytes(run: Callable[[], None]) -> int:
    """The most bytes in tensors while it runs, beyond what was there before."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return torch.cuda.max_memory_allocated() - before


def table() -> list[str]:
    lines = ["| advice | peak before | after | what it saves |", "| --- | ---: | ---: | --- |"]
    for remedy in REMEDIES:
        before, after = (f"{peak_bytes(run) / MIB:,.0f} MiB" for run in (remedy.before, remedy.after))
        lines.append(f"| {remedy.advice} | {before} | {after} | {remedy.saves} |")
    return lines


if __name__ == "__main__":
    torch.manual_seed(0)
    frugal_alloc.enable()
    steps(1)()  # cuBLAS takes its workspace
    print("\n".join(table()))

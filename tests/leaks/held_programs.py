"""What the programs of held_in_code.py, held_in_data.py and held_in_torch.py share: small programs that leak.

Each is a function that is declared with who holds its leak, as the report is to say it; None: nobody whom Python knows.
test_holders.py runs them, several in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 10
FEATURES = 64


class Program(NamedTuple):
    run: Callable[[], None]
    what: str | None
    through: str
    pattern: str | None


_programs: dict[str, Program] = {}


def held_by(what: str | None, through: str = "", pattern: str | None = None) -> Callable:
    """Declares a program: who is to be told, the way from there, and the pattern where it matters."""

    def declare(function: Callable[[], None]) -> Callable[[], None]:
        _programs[function.__name__] = Program(function, what, through, pattern)
        return function

    return declare


def all_programs() -> dict[str, Program]:
    return _programs


def train(step: Callable[[Tensor, nn.Module], Tensor | None], model: nn.Module | None = None) -> None:
    """An ordinary training: `step` may return a loss of its own."""
    if model is None:
        model = nn.Linear(FEATURES, FEATURES).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.ones(32, FEATURES)), batch_size=8)
    for _ in range(EPOCHS):
        for (inputs,) in loader:
            optimizer.zero_grad()
            batch = inputs.cuda()
            loss = step(batch, model)
            if loss is None:
                loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            del loss

"""The training that the programs of twins.py and benign_programs.py are made of: ten epochs of four batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 10
BATCHES = 4
FEATURES = 128


def new_model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()


def new_loader(batches: int = BATCHES) -> DataLoader:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(16 * batches, FEATURES, generator=generator)
    return DataLoader(TensorDataset(inputs, inputs[:, :64].clone()), batch_size=16)


def train(
    step: Callable[[Tensor, Tensor, nn.Module], Tensor],
    after_epoch: Callable[[nn.Module], None] | None = None,
    epochs: int = EPOCHS,
) -> None:
    """An ordinary training: `step` returns the loss."""
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters())
    loader = new_loader()
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = step(inputs.cuda(), targets.cuda(), model)
            loss.backward()
            optimizer.step()
            del loss
        if after_epoch is not None:
            after_epoch(model)


def mean_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs, targets)

"""A training whose evaluation keeps each loss with the graph that made it; with --healed, only its number.

Prints in JSON what the report says: the memory over time, and each epoch's verdict and forecast.
"""

import argparse
import json
from typing import Any

import frugal_alloc
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 24
FEATURES, CLASSES, BATCH = 1024, 10, 512


def new_loader(batches: int) -> DataLoader:
    inputs = torch.zeros(batches * BATCH, FEATURES)
    return DataLoader(TensorDataset(inputs, torch.zeros(len(inputs), dtype=torch.long)), BATCH)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: DataLoader) -> None:
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda()).backward()
        optimizer.step()


def evaluate(model: nn.Module, batches: DataLoader, losses: list[Any], healed: bool) -> None:
    for inputs, targets in batches:
        loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
        losses.append(loss.item() if healed else loss)


def forecast(epoch: int) -> list[Any]:
    """The epoch, the first verdict, and the epochs that are left by it."""
    document = json.loads(frugal_alloc.report().to_json())
    verdict = next(iter(document["verdicts"]), {"kind": None, "out_of_memory_in": None})
    left = verdict["out_of_memory_in"]
    return [epoch, verdict["kind"], left and left["epochs"]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healed", action="store_true")
    healed = parser.parse_args().healed
    frugal_alloc.enable()
    layers = [layer for _ in range(6) for layer in (nn.Linear(FEATURES, FEATURES), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(FEATURES, CLASSES)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    training, held_out = new_loader(4), new_loader(3)
    losses: list[Any] = []
    forecasts, failed_in = [], None
    for epoch in range(1, EPOCHS + 1):
        try:
            train(model, optimizer, training)
            evaluate(model, held_out, losses, healed)
        except torch.OutOfMemoryError:
            failed_in = epoch
            break
        frugal_alloc.epoch_end()
        forecasts.append(forecast(epoch))
    document = json.loads(frugal_alloc.report().to_json())
    told = {
        "failed_in": failed_in,
        "forecasts": forecasts,
        "gpu": document["gpus"][0],
        "timeline": document["timeline"],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()

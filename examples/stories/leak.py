"""Trains with an evaluation that keeps each loss with the graph that made it; with --healed, only its number.

    frugal-alloc simulate --memory 1536MiB -- python examples/stories/leak.py --allocator frugal

Memory runs out with each allocator; frugal_alloc says before why.
"""

import argparse
import json
import pathlib
import sys
from typing import Any

import allocators
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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


class Reports:
    """What frugal_alloc says at the end of each epoch; nothing with PyTorch's own allocator."""

    def __init__(self, allocator: allocators.Allocator) -> None:
        self._on = allocator == "frugal"
        self.text: str | None = None
        # Of each epoch its number, the first verdict, and the epochs that are left by it.
        self.forecasts: list[list[Any]] = []

    def epoch_end(self, epoch: int) -> None:
        if not self._on:
            return
        import frugal_alloc

        frugal_alloc.epoch_end()
        report = frugal_alloc.report()
        verdict = next(iter(json.loads(report.to_json())["verdicts"]), {"kind": None, "out_of_memory_in": None})
        left = verdict["out_of_memory_in"]
        self.forecasts.append([epoch, verdict["kind"], left and left["epochs"]])
        if verdict["kind"] == "leak" and self.text is None:
            self.text = str(report)
            print(self.text)

    def figures(self) -> dict[str, Any]:
        """The memory of the GPU, and what was in use over time."""
        if not self._on:
            return {}
        import frugal_alloc

        document = json.loads(frugal_alloc.report().to_json())
        return {"gpu": document["gpus"][0], "timeline": document["timeline"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--allocator", choices=allocators.ALLOCATORS, default="native")
    parser.add_argument("--healed", action="store_true", help="keep loss.item()")
    parser.add_argument("--epochs", type=allocators.count, default=24, help="epochs (default 24)")
    parser.add_argument("--json", type=pathlib.Path, help="write what was found to this file")
    options = parser.parse_args()
    allocators.use(options.allocator)
    layers = [layer for _ in range(6) for layer in (nn.Linear(FEATURES, FEATURES), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(FEATURES, CLASSES)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    training, held_out = new_loader(4), new_loader(3)
    losses: list[Any] = []
    course, reports, failed_in = allocators.Course(), Reports(options.allocator), None
    for epoch in range(1, options.epochs + 1):
        try:
            train(model, optimizer, training)
            evaluate(model, held_out, losses, options.healed)
        except torch.OutOfMemoryError as error:
            print(f"epoch {epoch}: {error}", file=sys.stderr)
            failed_in = epoch
        course.step()
        if failed_in:
            break
        reports.epoch_end(epoch)
    found = {"failed_in": failed_in, "forecasts": reports.forecasts, "report": reports.text}
    course.write(options.json, **found, **reports.figures())
    return 0 if failed_in is None else 1


if __name__ == "__main__":
    sys.exit(main())

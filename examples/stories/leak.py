"""Trains with an evaluation that keeps each loss with the graph that made it; with --healed, only its number.

    frugal-alloc simulate --memory 1536MiB -- python examples/stories/leak.py --allocator frugal

Memory runs out with each allocator; frugal_alloc says before why.
"""

import json
import sys
from typing import Any

import story
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

    def __init__(self, allocator: str) -> None:
        self._on = allocator == "frugal"
        self.text: str | None = None
        # Of each epoch its number, the first verdict, and the epochs that are left by it.
        self.forecasts: list[list[Any]] = []

    def epoch_end(self) -> None:
        if not self._on:
            return
        import frugal_alloc

        frugal_alloc.epoch_end()
        report = frugal_alloc.report()
        verdict = next(iter(json.loads(report.to_json())["verdicts"]), {"kind": None, "out_of_memory_in": None})
        left = verdict["out_of_memory_in"]
        self.forecasts.append([len(self.forecasts) + 1, verdict["kind"], left and left["epochs"]])
        if verdict["kind"] == "leak" and self.text is None:
            self.text = str(report)
            print(self.text)

    def figures(self) -> dict[str, Any]:
        """What it can have of the GPU, what was said, and (epochs ended, most bytes in use since the point before)."""
        if not self._on:
            return {}
        import frugal_alloc

        document = json.loads(frugal_alloc.report().to_json())
        available = document["gpus"][0]["total_bytes"] - document["gpus"][0]["outside_bytes"]
        points = [[epoch, peak] for _, _, epoch, _, _, peak, _ in document["timeline"]["points"]]
        return {"available_bytes": available, "forecasts": self.forecasts, "report": self.text, "points": points}


def main() -> int:
    parser = story.parser(__doc__)
    parser.add_argument("--healed", action="store_true", help="keep loss.item()")
    parser.add_argument("--epochs", type=story.count, default=24, help="epochs (default 24)")
    options = parser.parse_args()
    story.use(options.allocator)
    layers = [layer for _ in range(6) for layer in (nn.Linear(FEATURES, FEATURES), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(FEATURES, CLASSES)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    training, held_out = new_loader(4), new_loader(3)
    losses: list[Any] = []
    course, reports = story.Course(), Reports(options.allocator)

    def epoch() -> None:
        train(model, optimizer, training)
        evaluate(model, held_out, losses, options.healed)
        reports.epoch_end()

    course.run(options.epochs, epoch, "epoch")
    return course.end(options.json, **reports.figures())


if __name__ == "__main__":
    sys.exit(main())

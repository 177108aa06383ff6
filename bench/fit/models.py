"""What one training step takes of each of 25 models, by `frugal-alloc fit`: a table in CSV.

models.json has the models, whose choice follows the paper on xMem (arXiv 2510.21048): by the names of
torchvision.models, or a class of transformers and in what its configuration differs from the default one. Weights are
random, and nothing is downloaded.

From the root of a checkout, in an environment with torchvision and transformers:
``python -m bench.fit.models [--only TEXT] > bench/fit/models.csv``.
"""

from __future__ import annotations

import csv
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import torch
from frugal_alloc._common.arguments import Parser

GPU, STEPS = "A100-80GB", 3
IMAGES, SEQUENCES, TOKENS = 32, 4, 512
MODELS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
HEAD = ["model", "million parameters", "batch", "requested (GiB)", "reserved (GiB)", "in use (GiB)"]


def train(name: str) -> None:
    """In single precision, with AdamW."""
    with torch.device("cuda"):
        model = make(name).train()
    print(sum(parameter.numel() for parameter in model.parameters()), flush=True)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        loss_of(model, name).backward()
        optimizer.step()
        optimizer.zero_grad()


def make(name: str) -> torch.nn.Module:
    if not MODELS[name]:
        import torchvision

        return torchvision.models.get_model(name, weights=None)
    import transformers

    kind = getattr(transformers, MODELS[name]["class"])
    return kind(kind.config_class(**MODELS[name]["settings"], use_cache=False))


def loss_of(model: torch.nn.Module, name: str) -> torch.Tensor:
    if not MODELS[name]:
        images = torch.randn(IMAGES, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 1000, (IMAGES,), device="cuda")
        return torch.nn.functional.cross_entropy(model(images), labels)
    tokens = torch.randint(0, 30000, (SEQUENCES, TOKENS), device="cuda")
    return model(input_ids=tokens, labels=tokens).loss


def row(name: str) -> list[str]:
    """Of the table.

    Raises:
        RuntimeError: there is no verdict; the message is the last line on standard error.
    """
    fit = [sys.executable, "-m", "frugal_alloc", "fit", "--gpu", GPU, "--steps", str(STEPS), "--json", "--"]
    program = [sys.executable, "-m", "bench.fit.models", "--train", name]
    done = subprocess.run([*fit, *program], capture_output=True, text=True)
    found = json.loads(done.stdout)["verdicts"][0] if done.stdout else {"ranks": []}
    if not found["ranks"] or found["fits"] is None:
        raise RuntimeError(f"{name}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    (rank,) = found["ranks"]
    parameters = next(line for line in done.stderr.splitlines() if line.isdigit())
    batch = f"{SEQUENCES} x {TOKENS} tokens" if MODELS[name] else f"{IMAGES} images"
    sizes = (rank["requested_peak_bytes"], rank["reserved_peak_bytes"], rank["peak"]["used_bytes"])
    return [name, f"{int(parameters) / 1e6:,.1f}", batch, *(f"{size / (1 << 30):.2f}" for size in sizes)]


def main() -> int:
    parser = Parser("models", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="the models whose name has this in it")
    parser.add_argument("--train", choices=MODELS, help="train it here, for fit")
    options = parser.parse_args()
    if options.train:
        train(options.train)
        return 0
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(HEAD)
    for name in MODELS:
        if options.only in name:
            write(row(name))
            sys.stdout.flush()
    versions = {package: importlib.metadata.version(package) for package in ("torch", "torchvision", "transformers")}
    print(", ".join(f"{package} {version}" for package, version in versions.items()), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fine-tunes torchvision's vit_l_16 for ten classes on random images, in the precisions and with the optimizers of a
blog post on saving memory."""

from __future__ import annotations

import argparse
import contextlib

import figures
import torch
from torchvision.models import vit_l_16

STEPS = 3


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=("32", "16-mixed", "bf16"), default="32")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--sgd", action="store_true")
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    model = vit_l_16()
    model.heads.head = torch.nn.Linear(1024, 10)
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    model.to(dtype).to("cuda")
    parameters = model.parameters()
    optimizer = torch.optim.SGD(parameters, lr=0.01) if options.sgd else torch.optim.Adam(parameters, lr=5e-5)
    mixed = options.precision == "16-mixed"
    scaler = torch.cuda.amp.GradScaler(enabled=mixed)
    for step in range(STEPS * options.accumulate):
        model.train()
        images = torch.rand(options.batch, 3, 224, 224).cuda().to(dtype)
        labels = torch.randint(0, 10, (options.batch,)).cuda()
        with torch.autocast("cuda", torch.float16) if mixed else contextlib.nullcontext():
            logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits.float() if mixed else logits, labels) / options.accumulate
        if options.accumulate == 1:
            optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step % options.accumulate == 0:
            scaler.step(optimizer)
            scaler.update()
            if options.accumulate > 1:
                optimizer.zero_grad()


if __name__ == "__main__":
    main(parse())
    figures.report()

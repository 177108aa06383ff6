"""torchvision's vit_l_16 on random images."""

from __future__ import annotations

import contextlib

import torch
from torchvision.models import vit_l_16

STEPS = 3


def fine_tune(precision: str = "32", batch: int = 64, accumulate: int = 1, sgd: bool = False) -> None:
    """For ten classes, in the precisions (32, 16-mixed or bf16) and with the optimizers of a post on saving memory."""
    model = vit_l_16()
    model.heads.head = torch.nn.Linear(1024, 10)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model.to(dtype).to("cuda")
    parameters = model.parameters()
    optimizer = torch.optim.SGD(parameters, lr=0.01) if sgd else torch.optim.Adam(parameters, lr=5e-5)
    mixed = precision == "16-mixed"
    scaler = torch.cuda.amp.GradScaler(enabled=mixed)
    for step in range(STEPS * accumulate):
        model.train()
        images = torch.rand(batch, 3, 224, 224).cuda().to(dtype)
        labels = torch.randint(0, 10, (batch,)).cuda()
        with torch.autocast("cuda", torch.float16) if mixed else contextlib.nullcontext():
            logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits.float() if mixed else logits, labels) / accumulate
        if accumulate == 1:
            optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step % accumulate == 0:
            scaler.step(optimizer)
            scaler.update()
            if accumulate > 1:
                optimizer.zero_grad()


def train_with_adam(in_backward: bool = False) -> None:
    """On one image; the optimizer's steps come after the backward pass or inside it."""
    model = vit_l_16().cuda()

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    if in_backward:
        optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in model.parameters()}
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(update)
    else:
        optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        model(torch.rand(1, 3, 224, 224).cuda()).sum().backward()
        if not in_backward:
            optimizer.step()
            optimizer.zero_grad()


def load(at_once: bool = False) -> torch.nn.Module:
    """In half precision: moved and then converted, or made there as it is to be."""
    if not at_once:
        return vit_l_16().to("cuda").to(torch.float16)
    torch.set_default_dtype(torch.float16)
    with torch.device("cuda"):
        return vit_l_16()

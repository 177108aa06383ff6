"""ViT-B/16 in half precision with a loss scale: fixed shapes, gradients of four batches together, half recomputed."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
import torchvision
from torch.utils.checkpoint import checkpoint

from ..training.workloads import Step

STEPS = 40

_BATCH, _BATCHES_OF_A_STEP = 128, 4


def build(_: random.Random) -> Step:
    model = torchvision.models.vit_b_16(weights=None).cuda()
    # Every other layer is computed a second time on the way back.
    for number, layer in enumerate(model.encoder.layers):
        if number % 2:
            layer.forward = _recomputed(layer.forward)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    batches = 0

    def step() -> None:
        nonlocal batches
        images = torch.rand(_BATCH, 3, 224, 224, device="cuda")
        labels = torch.randint(1000, (_BATCH,), device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(images), labels) / _BATCHES_OF_A_STEP
        scaler.scale(loss).backward()
        batches += 1
        if batches % _BATCHES_OF_A_STEP == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)

    return step


def _recomputed(forward):
    return lambda hidden: checkpoint(forward, hidden, use_reentrant=False)

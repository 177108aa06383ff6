"""Trains torchvision's vit_l_16 on one image with Adam, whose steps come after the backward pass or inside it."""

from __future__ import annotations

import argparse

import figures
import torch
from torchvision.models import vit_l_16

STEPS = 3


def step(model: torch.nn.Module) -> None:
    model(torch.rand(1, 3, 224, 224).cuda()).sum().backward()


def train(model: torch.nn.Module) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        step(model)
        optimizer.step()
        optimizer.zero_grad()


def train_in_backward(model: torch.nn.Module) -> None:
    optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for _ in range(STEPS):
        step(model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--in-backward", action="store_true")
    model = vit_l_16().cuda()
    (train_in_backward if parser.parse_args().in_backward else train)(model)
    figures.report()

""" "Training a detector exits with status 1".

A Faster R-CNN of torchvision on large images. The training catches its own exception, so that nothing is to be read
but the exit status. Behind it: a batch that is too large, every input cloned on the GPU, and a helper tensor that is
made anew in each iteration.

    frugal-alloc simulate --memory 1GiB --values cpu -- python examples/stories/caught_error.py [--healed]
"""

from __future__ import annotations

import sys

import story
import torch
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

SIDE = 128


class Scenes(torch.utils.data.Dataset):
    """Images with one box each."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        image = torch.rand(3, SIDE, SIDE, generator=torch.Generator().manual_seed(index))
        corner = 8.0 + 2 * index
        return image, {"boxes": torch.tensor([[corner, corner, corner + 64, corner + 64]]), "labels": torch.tensor([1])}


def collate(entries: list) -> tuple:
    return tuple(zip(*entries, strict=True))


def build_model() -> torch.nn.Module:
    return fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=2,
        min_size=SIDE,
        max_size=SIDE,
        rpn_pre_nms_top_n_train=200,
        rpn_post_nms_top_n_train=200,
        box_batch_size_per_image=200,
    ).cuda()


def train_sick(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loader = torch.utils.data.DataLoader(Scenes(), batch_size=8, collate_fn=collate)
    for images, targets in loader:
        originals = [image.cuda() for image in images]
        inputs = [image.clone().to("cuda") for image in originals]
        boxes = [{name: value.cuda() for name, value in target.items()} for target in targets]
        helper = torch.zeros(64, 1024, 1024, device="cuda")
        losses = model(inputs, boxes)
        loss = sum(losses.values()) + helper[0, 0, 0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train_healed(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loader = torch.utils.data.DataLoader(Scenes(), batch_size=2, collate_fn=collate)
    for step, (images, targets) in enumerate(loader):
        inputs = [image.cuda() for image in images]
        boxes = [{name: value.cuda() for name, value in target.items()} for target in targets]
        loss = sum(model(inputs, boxes).values()) / 4
        loss.backward()
        del inputs, boxes, loss
        if step % 4 == 3:  # gradients of four small batches are those of the large one
            optimizer.step()
            optimizer.zero_grad()


def train(healed: bool) -> None:
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    try:
        (train_healed if healed else train_sick)(model, optimizer)
    except Exception:
        sys.exit(1)


if __name__ == "__main__":
    story.tell(train)

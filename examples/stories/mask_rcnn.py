"""Mask R-CNN does not fit, at some random step.

Images of many sizes, one scale drawn for each batch, so the step that fails is the one with the largest images, in no
epoch the same. What helps: a smaller largest size and accumulated gradients. What does not: fewer workers, whose memory
is the host's.

    frugal-alloc simulate --memory 1GiB --values cpu -- python examples/stories/mask_rcnn.py [--healed]
"""

from __future__ import annotations

import story
import torch
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection.backbone_utils import mobilenet_backbone
from torchvision.models.detection.rpn import AnchorGenerator

SCALES = (64, 96, 128, 256)


class Scenes(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        image = torch.rand(3, 128, 128 + 16 * (index % 3), generator=torch.Generator().manual_seed(index))
        masks = torch.zeros(1, *image.shape[1:], dtype=torch.uint8)
        masks[:, 30:100, 30:100] = 1
        target = {"boxes": torch.tensor([[30.0, 30.0, 100.0, 100.0]]), "labels": torch.tensor([1]), "masks": masks}
        return image, target


def collate(entries: list) -> tuple:
    return tuple(zip(*entries, strict=True))


def build_model(scales: tuple[int, ...], regions: int) -> torch.nn.Module:
    backbone = mobilenet_backbone(backbone_name="mobilenet_v3_large", weights=None, fpn=True, trainable_layers=6)
    anchors = AnchorGenerator(((32, 64, 128),) * 3, ((0.5, 1.0, 2.0),) * 3)
    return MaskRCNN(
        backbone,
        num_classes=2,
        min_size=scales,
        max_size=2 * max(scales),
        rpn_anchor_generator=anchors,
        rpn_pre_nms_top_n_train=regions,
        rpn_post_nms_top_n_train=regions,
        box_batch_size_per_image=regions,
    ).cuda()


def accumulate(model: torch.nn.Module, batch_size: int, parts: int, workers: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = torch.utils.data.DataLoader(Scenes(), batch_size=batch_size, collate_fn=collate, num_workers=workers)
    for step, (images, targets) in enumerate(loader):
        inputs = [image.cuda() for image in images]
        truth = [{name: value.cuda() for name, value in target.items()} for target in targets]
        loss = sum(model(inputs, truth).values()) / parts
        loss.backward()
        if step % parts == parts - 1:
            optimizer.step()
            optimizer.zero_grad()


def train(healed: bool) -> None:
    if healed:
        accumulate(build_model(SCALES[:2], regions=64), batch_size=1, parts=4, workers=0)
    else:
        accumulate(build_model(SCALES, regions=128), batch_size=4, parts=1, workers=2)


if __name__ == "__main__":
    story.tell(train)

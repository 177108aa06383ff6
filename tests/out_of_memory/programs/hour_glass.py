# ERROR: a batch too large for a network that takes places away and brings them back, and has one pool for all
# ROOM: 120, 200
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch=64 -> batch=\1
import torch
from project.models import train
from torch import nn


class HourGlass(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(self.block(*sizes) for sizes in ((3, width), (width, 2 * width)))
        self.middle = self.block(2 * width, 4 * width)
        self.up = nn.ModuleList(self.block(*sizes) for sizes in ((6 * width, 2 * width), (3 * width, width)))

    @staticmethod
    def block(taken: int, made: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(taken, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        joins = []
        for block in self.down:
            joins.append(block(images))
            images = self.pool(joins[-1])
        images = self.middle(images)
        for block in self.up:
            images = block(torch.cat((nn.functional.interpolate(images, scale_factor=2.0), joins.pop()), 1))
        return images


def train_hour_glass(batch=64):
    train(HourGlass(), torch.zeros(1, 3, 64, 64), (batch,))


train_hour_glass()

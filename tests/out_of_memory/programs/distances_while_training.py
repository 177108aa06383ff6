# ERROR: all distances beside a model's results that are kept for backward
# ROOM: 3000, 6000
# FIRST: this one tensor of .* in (\d+) pieces
# FITS-AFTER: pieces=1 -> pieces=\1
import torch
from project.models import WIDTH, layers


def nearest(pieces=1):
    points = torch.zeros(1 << 16, 64, device="cuda")
    found = []
    for part in points.chunk(pieces):
        between = torch.cdist(part, points)  # request
        found.append(between.argmin(1))
        del between


def train():
    model = layers(2).cuda()
    loss = model(torch.zeros(2048, WIDTH, device="cuda")).square().mean()
    nearest()
    loss.backward()


train()

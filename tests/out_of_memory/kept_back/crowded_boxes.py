# ERROR: A detector matches anchors to boxes: one image of a crowd has 1700 boxes where the others have 20.
# ROOM: 1100
# RUNS: training
# VERDICT: too_big
# REQUEST: 29
# CHANGE host: [match(anchors, boxes)] -> [match(anchors.cpu(), boxes.cpu()).cuda()]
# CHANGE pieces: overlaps = box_iou(anchors, boxes) -> parts = anchors.chunk({n})
# CHANGE pieces: return overlaps.max(1).indices -> return torch.cat([box_iou(p, boxes).max(1).indices for p in parts])
# CHANGE longest: boxes = boxes.cuda() -> boxes = boxes[:{n}].cuda()
# BEST: pieces
# WORKS: host, pieces, longest
import torch
from torch import nn

torch.manual_seed(5)
boxes_per_image = [12, 25, 7, 31, 1700, 18]


def make_anchors():
    y, x = torch.meshgrid(torch.arange(0, 800, 8.0), torch.arange(0, 1088, 8.0), indexing="ij")
    centers = torch.stack([x, y], dim=2).reshape(-1, 1, 2)
    half_sizes = torch.tensor([[16.0, 16.0], [24.0, 12.0], [12.0, 24.0]])
    return torch.cat([centers - half_sizes, centers + half_sizes], dim=2).reshape(-1, 4)


def box_iou(first, second):
    low = torch.max(first[:, None, :2], second[None, :, :2])
    high = torch.min(first[:, None, 2:], second[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    area1 = (first[:, 2:] - first[:, :2]).prod(1)
    area2 = (second[:, 2:] - second[:, :2]).prod(1)
    return shared / (area1[:, None] + area2 - shared)


def match(anchors, boxes):
    overlaps = box_iou(anchors, boxes)
    return overlaps.max(1).indices


backbone = nn.Sequential(nn.Conv2d(3, 32, 8, 8), nn.ReLU(), nn.Conv2d(32, 12, 1)).cuda()
optimizer = torch.optim.SGD(backbone.parameters(), lr=0.01)
anchors = make_anchors().cuda()
for count in boxes_per_image:
    image = torch.rand(1, 3, 800, 1088).cuda()
    corners = torch.rand(count, 2) * 700
    boxes = torch.cat([corners, corners + torch.rand(count, 2) * 80 + 8], dim=1)
    boxes = boxes.cuda()
    targets = boxes[match(anchors, boxes)]
    deltas = backbone(image).permute(0, 2, 3, 1).reshape(-1, 4)
    loss = nn.functional.smooth_l1_loss(anchors + deltas, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# ERROR: all distances between 2**16 points, which are 16 GiB
# ROOM: 3000, 6000, 12000
# VERDICT: too_big
# FIRST: this one tensor of .* in (\d+) pieces
# FITS-AFTER: pieces = 1 -> pieces = \1
import torch

pieces = 1
points = torch.zeros(1 << 16, 64, device="cuda")
found = []
for part in points.chunk(pieces):
    between = torch.cdist(part, points)  # request
    found.append(between.argmin(1))
    del between

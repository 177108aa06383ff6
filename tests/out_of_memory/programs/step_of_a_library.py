# ERROR: a line that is all of a step is split by the modules within
# ROOM: 400
# SAYS: ([\d.]+ MiB) of it in ReLU.forward, torch/nn/modules/activation\.py:\d+ \(\d+ tensors?\)
# SAYS: ReLU.forward, .* of it in Linear.forward, torch/nn/modules/linear\.py:\d+ \(\d+ tensors?\)
import torch
from torch import nn

layers = [layer for _ in range(8) for layer in (nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 64))]
model = nn.Sequential(*layers).cuda()
model(torch.zeros(16384, 64, device="cuda"))  # request

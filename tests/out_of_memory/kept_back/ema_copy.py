# ERROR: An average (EMA) of the model is a second copy on the GPU, beside weights, gradients and Adam's states.
# ROOM: 790
# RUNS: training
# VERDICT: too_big
# HOLDER: average
# REQUEST: 50
# LARGEST: 21
# CHANGE host: average = copy.deepcopy(model) -> average = copy.deepcopy(model).cpu()
# CHANGE host: old.lerp_(new, 0.001) -> old.lerp_(new.cpu(), 0.001)
# CHANGE batch: IMAGES_PER_STEP = 24 -> IMAGES_PER_STEP = {n}
# CHANGE foreach: lr=2e-4) -> lr=2e-4, foreach=False)
# CHANGE half: average = copy.deepcopy(model) -> average = copy.deepcopy(model).bfloat16()
# CHANGE half: old.lerp_(new, 0.001) -> old.lerp_(new.bfloat16(), 0.001)
# BEST: batch
# WORKS: host, batch
import copy

import torch
from torch import nn

IMAGES_PER_STEP = 24


def stage(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(16, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.GroupNorm(16, outputs),
        nn.SiLU(),
    )


model = nn.Sequential(
    stage(4, 320),
    nn.AvgPool2d(2),
    stage(320, 640),
    nn.AvgPool2d(2),
    stage(640, 1024),
    nn.Upsample(scale_factor=4),
    nn.Conv2d(1024, 4, 3, padding=1),
).cuda()
average = copy.deepcopy(model)
average.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
for _ in range(3):
    latents = torch.randn(IMAGES_PER_STEP, 4, 32, 32).cuda()
    noise = torch.randn_like(latents)
    loss = nn.functional.mse_loss(model(latents + noise), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(average.parameters(), model.parameters(), strict=True):
            old.lerp_(new, 0.001)

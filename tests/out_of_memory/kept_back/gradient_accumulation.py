# ERROR: Training accumulates gradients over 8 micro batches, but a micro batch of 14 volumes is too large by itself.
# ROOM: 910
# RUNS: training
# VERDICT: too_big
# REQUEST: 40
# LARGEST: 8
# CHANGE batch: MICRO_BATCH = 14 -> MICRO_BATCH = {n}
# CHANGE half: net = VolumeNet().to(device) -> net = VolumeNet().to(device)\ntorch.set_autocast_enabled("cuda", True)
# CHANGE checkpoint: class Vol -> later = torch.utils.checkpoint.checkpoint_sequential\n\n\nclass Vol
# CHANGE checkpoint: self.features(volume). -> later(self.features, 3, volume, use_reentrant=False).
# BEST: batch
# WORKS: batch, half
import torch
from torch import nn

device = "cuda"
MICRO_BATCH = 14
ACCUMULATE = 8
SIDE = 64


class VolumeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv3d(1, 24, 3, padding=1),
            nn.InstanceNorm3d(24),
            nn.LeakyReLU(0.01),
            nn.Conv3d(24, 48, 3, stride=2, padding=1),
            nn.InstanceNorm3d(48),
            nn.LeakyReLU(0.01),
            nn.Conv3d(48, 96, 3, stride=2, padding=1),
            nn.InstanceNorm3d(96),
            nn.LeakyReLU(0.01),
            nn.AdaptiveAvgPool3d(1),
        )
        self.grade = nn.Linear(96, 3)

    def forward(self, volume):
        return self.grade(self.features(volume).flatten(1))


def train_step(net, optimizer):
    optimizer.zero_grad()
    for _ in range(ACCUMULATE):
        volumes = torch.rand(MICRO_BATCH, 1, SIDE, SIDE, SIDE).to(device)
        grades = torch.randint(0, 3, (MICRO_BATCH,)).to(device)
        loss = nn.functional.cross_entropy(net(volumes), grades) / ACCUMULATE
        loss.backward()
    optimizer.step()


net = VolumeNet().to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(2):
    train_step(net, optimizer)

# ERROR: A U-Net at 352 by 480: the decoder's concatenations after everything of the encoder is kept.
# ROOM: 2890
# RUNS: training
# VERDICT: too_big
# REQUEST: 47
# LARGEST: 4
# CHANGE batch: batch_size = 6 -> batch_size = {n}
# CHANGE half: unet = UNet().cuda() -> unet = UNet().cuda()\ntorch.set_autocast_enabled("cuda", True)
# BEST: batch
# WORKS: batch
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

batch_size = 6


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = double_conv(3, 48)
        self.down2 = double_conv(48, 96)
        self.down3 = double_conv(96, 192)
        self.up2 = double_conv(192 + 96, 96)
        self.up1 = double_conv(96 + 48, 48)
        self.last = nn.Conv2d(48, 5, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        c = F.interpolate(c, scale_factor=2, mode="bilinear")
        b = self.up2(torch.cat([b, c], dim=1))
        b = F.interpolate(b, scale_factor=2, mode="bilinear")
        return self.last(self.up1(torch.cat([a, b], dim=1)))


scans = TensorDataset(torch.rand(12, 3, 352, 480), torch.randint(0, 5, (12, 352, 480)))
unet = UNet().cuda()
optimizer = torch.optim.AdamW(unet.parameters(), lr=3e-4)
for scan, mask in DataLoader(scans, batch_size=batch_size, shuffle=True):
    loss = F.cross_entropy(unet(scan.cuda()), mask.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# ERROR: One slide of 3000 by 4400 pixels goes through a segmentation net at once, without a graph.
# ROOM: 4390
# RUNS: evaluation
# VERDICT: too_big
# REQUEST: 27
# CHANGE pieces: STRIPS = 1 -> STRIPS = {n}
# CHANGE half: net.eval() -> net.eval()\ntorch.set_autocast_enabled("cuda", True)
# BEST: pieces
# WORKS: pieces
import torch
from torch import nn

HEIGHT, WIDTH = 3000, 4400
STRIPS = 1


class SlideNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.ReLU(inplace=True))
        self.wider = nn.Sequential(nn.MaxPool2d(4), nn.Conv2d(20, 64, 3, padding=1), nn.ReLU(inplace=True))
        self.up = nn.Upsample(scale_factor=4)
        self.tissue = nn.Conv2d(64 + 20, 2, 1)

    def forward(self, slide):
        fine = self.local(slide)
        coarse = self.up(self.wider(fine))
        return self.tissue(torch.cat([fine, coarse], dim=1))


net = SlideNet().cuda()
net.eval()
slide = torch.randint(0, 256, (1, 3, HEIGHT, WIDTH), dtype=torch.uint8)
tissue = []
with torch.no_grad():
    for strip in slide.chunk(STRIPS, dim=2):
        pixels = strip.cuda().float() / 255
        logits = net(pixels)
        tissue.append(logits.argmax(1).byte().cpu())
tissue = torch.cat(tissue, dim=1)
print("tissue", tissue.float().mean().item())

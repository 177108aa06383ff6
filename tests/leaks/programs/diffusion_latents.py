# LEAK: the latents of each denoising step are kept for an animation, for all images
# HOLDER: frames
# REMEDY: .cpu() | clear it
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, latents, t):
        return self.net(latents) / (1 + t)


@torch.no_grad()
def sample(denoiser, frames, steps=8):
    latents = torch.randn(2, 4, 32, 32, device="cuda")
    for t in range(steps):
        latents = latents - 0.1 * denoiser(latents, t)  # leak
        frames.append(latents)
    return latents.cpu()


frames = []
denoiser = Denoiser().cuda().eval()
images = [sample(denoiser, frames) for _ in range(24)]

# HEALTHY: a key-value cache with a sliding window, over one long stream
import torch
from torch import nn


class WindowedAttention(nn.Module):
    def __init__(self, size, window):
        super().__init__()
        self.key, self.value = nn.Linear(size, size), nn.Linear(size, size)
        self.window = window
        self.keys = self.values = None

    def forward(self, x):
        keys, values = self.key(x), self.value(x)
        if self.keys is not None:
            keys, values = torch.cat([self.keys, keys], dim=1), torch.cat([self.values, values], dim=1)
        self.keys, self.values = keys[:, -self.window :], values[:, -self.window :]
        return (x @ self.keys.transpose(1, 2)).softmax(dim=-1) @ self.values


layer = WindowedAttention(256, window=32).cuda().eval()
with torch.no_grad():
    x = torch.rand(4, 1, 256, device="cuda")
    for position in range(200):
        x = layer(x)

# LEAK: one conversation's cache gets longer with each turn
# HOLDER: cache
# VERDICT: growing, growing_tensor
# REMEDY: bound its size | on the host | bound it
import torch
from textgen import DynamicCache
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Chat(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(128, 128)
        self.values = nn.Linear(128, 128)
        self.cache = DynamicCache()

    @torch.no_grad()
    def forward(self, x):
        _, values = self.cache.update(self.keys(x), self.values(x), 0)  # leak
        return values.mean(dim=1)


chat = Chat().cuda().eval()
for epoch in range(14):
    for (x,) in DataLoader(TensorDataset(torch.rand(16, 64, 128)), batch_size=4):
        chat(x.cuda())

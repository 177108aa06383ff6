# LEAK: a table is made anew after each epoch, with room for what that epoch has seen besides
# HELD: tensor 'table' of Counts
# VERDICT: growing, growing_tensor
# REMEDY: bound its size | on the host
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Counts:
    def __init__(self):
        self.table = None

    def enlarge(self, words):
        self.table = torch.zeros(words, device="cuda")  # leak


counts = Counts()
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(10):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    counts.enlarge((1 << 16) + ((epoch + 1) << 18))

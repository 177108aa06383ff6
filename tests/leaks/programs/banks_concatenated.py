# LEAK: banks of negatives that are concatenated to; similarities with them are made anew and only look as if they grew
# VERDICT: growing, growing_concatenation
# REMEDY: bound its size | on the host
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Memory:
    def __init__(self, width):
        self.bank = torch.zeros(8, width, device="cuda")

    def remember(self, features):
        self.bank = torch.cat((self.bank, features.detach()), dim=0)  # leak: tensor 'bank' of Memory


class WithBank(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(128, 256)
        self.register_buffer("keys", torch.zeros(0, 256))

    def forward(self, x):
        keys = self.project(x)
        self.keys = torch.cat([self.keys, keys.detach()])  # leak: buffer 'keys' of WithBank
        return keys


memory, model = Memory(256), WithBank().cuda()
negatives = torch.zeros(1, 256, device="cuda")
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=64)
for epoch in range(14):
    for (x,) in loader:
        features = model(x.cuda())
        similarities = features @ memory.bank.T
        logits = features @ negatives.T
        loss = similarities.softmax(dim=1).square().mean() + logits.logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory.remember(features)
        negatives = torch.cat([negatives, features.detach()])  # leak: tensor 'negatives'

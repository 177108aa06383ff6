# MEANT: a mixture gets an expert whenever its loss stays, up to eight, with all of its optimizer state
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Mixture(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.gate = nn.Linear(size, 8)
        self.experts = nn.ModuleList([nn.Linear(size, size)])

    def forward(self, x):
        weights = self.gate(x)[:, : len(self.experts)].softmax(dim=-1)
        return sum(weights[:, [number]] * expert(x) for number, expert in enumerate(self.experts))


model = Mixture(256).cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(16):
    for (x,) in DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16):
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 2 and len(model.experts) < 8:
        model.experts.append(nn.Linear(256, 256).cuda())
        optimizer.add_param_group({"params": model.experts[-1].parameters()})

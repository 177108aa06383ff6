# LEAK: a dataclass with a list field per run
# HOLDER: attention | run
# REMEDY: .cpu() | clear it
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class TrainingRun:
    name: str
    losses: list = field(default_factory=list)
    attention: list = field(default_factory=list)


def train(run):
    model = nn.Linear(64, 64).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(24, 64, 64)), batch_size=8)
    for epoch in range(12):
        for (x,) in loader:
            x = x.cuda()
            weights = (model(x) @ x.transpose(1, 2)).softmax(dim=-1)  # leak
            loss = (weights @ x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.attention.append(weights.detach())
            run.losses.append(loss.item())


train(TrainingRun("first"))

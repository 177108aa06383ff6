# MEANT: each stage of a cascade is trained on what the stages before it make of the data
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Cascade:
    def __init__(self):
        self.stages = []

    @torch.no_grad()
    def refine(self, x):
        for stage in self.stages:
            x = x + stage(x)
        return x

    def add_stage(self, loader):
        stage = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256)).cuda()
        optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
        for (x,) in loader:
            refined = self.refine(x.cuda())
            loss = (stage(refined) + refined).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.stages.append(stage.eval())


cascade = Cascade()
for _ in range(12):
    cascade.add_stage(DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32))

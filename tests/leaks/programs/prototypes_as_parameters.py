# LEAK: the model files a prototype of each batch in a ParameterDict, and none is ever merged
# HOLDER: prototypes | model | Prototypical
# REMEDY: bound it | clear it | let it go | .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prototypical(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(256, 512)
        self.prototypes = nn.ParameterDict()

    def file(self, features):
        name = f"p{len(self.prototypes)}"
        self.prototypes[name] = nn.Parameter(features.detach() * 0.5, requires_grad=False)  # leak


def train(model, loader):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    for epoch in range(12):
        for (x,) in loader:
            features = model.encoder(x.cuda())
            loss = features.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.file(features)


train(Prototypical().cuda(), DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32))

# MEANT: a prompt is learned for each task in turn, and stays in the model, frozen
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prompted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(256, 256).requires_grad_(False)
        self.prompts = nn.ParameterList()

    def forward(self, x):
        return self.body(x) @ self.prompts[-1]


model = Prompted().cuda()
for task in range(12):
    for prompt in model.prompts:
        prompt.requires_grad_(False)
    model.prompts.append(nn.Parameter(torch.rand(256, 256, device="cuda")))
    optimizer = torch.optim.Adam([model.prompts[-1]])
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32):
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

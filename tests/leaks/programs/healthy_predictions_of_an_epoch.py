# HEALTHY: predictions are gathered on the GPU and cleared after each evaluation
# LIKE: outputs_kept
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Evaluator:
    def __init__(self, model):
        self.model = model
        self.outputs = []

    @torch.no_grad()
    def run(self, loader):
        self.outputs.clear()
        for (x,) in loader:
            self.outputs.append(self.model(x.cuda()))
        return torch.cat(self.outputs).mean().item()


model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train_loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
eval_loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=16)
evaluator = Evaluator(model)
for epoch in range(12):
    for (x,) in train_loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    print(epoch, evaluator.run(eval_loader))

# HEALTHY: a hook keeps the latest activation of each layer
# LIKE: hook
# EPOCHS: data_loader, 11 ended, 36 steps
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

activations = {}


def keep(name):
    def hook(module, args, output):
        activations[name] = output.detach()

    return hook


model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()
for name, module in model.named_modules():
    module.register_forward_hook(keep(name))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 64)), batch_size=32):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

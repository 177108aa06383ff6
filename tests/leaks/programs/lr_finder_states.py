# LEAK: the weights before each trial of a learning rate are cloned and kept
# HOLDER: before
# REMEDY: .cpu() | on the host | bound it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def clone_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}  # leak


before = {}
model = nn.Linear(512, 512).cuda()
loader = DataLoader(TensorDataset(torch.rand(48, 512)), batch_size=16)
for trial in range(14):
    lr = 10.0 ** (trial - 10)
    before[lr] = clone_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.load_state_dict(before[lr])

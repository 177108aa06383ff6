# LEAK: a saved-tensors hook that should offload what autograd saves keeps it in a list as well
# HOLDER: offloaded
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

offloaded = []


def pack(tensor):
    offloaded.append(tensor)
    return len(offloaded) - 1


def unpack(index):
    return offloaded[index]


first, second = nn.Linear(128, 512).cuda(), nn.Linear(512, 8).cuda()
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        x = x.cuda()  # leak
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = second(torch.tanh(first(x))).mean()  # leak
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

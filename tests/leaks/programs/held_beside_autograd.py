# LEAK: gradients that a tensor's hook lists, Jacobians, and what autograd saves, which a hook should offload
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def pack(tensor):
    offloaded.append(tensor)
    return len(offloaded) - 1


def unpack(index):
    return offloaded[index]


gradients, jacobians, offloaded = [], [], []
encoder, decoder, flow = nn.Linear(64, 512).cuda(), nn.Linear(512, 64).cuda(), nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *flow.parameters()])
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 64)), batch_size=32):
        x = x.cuda()  # leak: list 'offloaded'
        code = encoder(x)
        code.register_hook(lambda gradient: gradients.append(gradient))
        loss = (decoder(code) - x).square().mean()  # leak: list 'gradients'
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = loss + torch.tanh(flow(x)).mean()  # leak: list 'offloaded'
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        jacobians.append(torch.autograd.functional.jacobian(flow, x[0]))  # leak: list 'jacobians'

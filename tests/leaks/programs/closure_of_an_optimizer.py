# LEAK: what a closure keeps, which an optimizer's step calls, as Lightning's trainer has each training step called
# HELD: list 'outputs'
# VERDICT: leak, outputs_kept
# REMEDY: .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

outputs = []  # holder
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)


def closure(inputs):
    optimizer.zero_grad()
    output = model(inputs.cuda())  # leak
    outputs.append(output.detach())
    loss = output.square().mean()
    loss.backward()
    return loss


for epoch in range(12):
    for (inputs,) in loader:
        optimizer.step(lambda inputs=inputs: closure(inputs))

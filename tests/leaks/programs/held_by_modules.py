# LEAK: modules keep the features of each batch: in a ParameterList, in a ParameterDict, as buffers under new names
# VERDICT: leak, unbounded_cache
# REMEDY: bound it | clear it | let it go
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(128, 256)
        self.slots, self.prototypes = nn.ParameterList(), nn.ParameterDict()

    def forward(self, x):
        out = self.layer(x)
        seen = out.detach()
        buffer = seen + 1  # leak: Memory 'model' through buffer 'seen_*' of Memory
        self.register_buffer(f"seen_{len(self.slots)}", buffer)
        slot = seen + 2  # leak: Memory 'model' through parameter '*' of ParameterList
        self.slots.append(nn.Parameter(slot, requires_grad=False))
        name = f"p{len(self.prototypes)}"
        prototype = seen * 0.5  # leak: Memory 'model' through parameter 'p*' of ParameterDict
        self.prototypes[name] = nn.Parameter(prototype, requires_grad=False)
        return out


model = Memory().cuda()
optimizer = torch.optim.SGD(model.layer.parameters(), lr=0.1)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

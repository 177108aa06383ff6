# HEALTHY: a hook is registered for each batch, and removed after it
# LIKE: hooks_added
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recorder:
    def __init__(self, module):
        self.handle = module.register_forward_hook(self.keep)
        self.output = None

    def keep(self, module, args, output):
        self.output = output.detach()

    def close(self):
        self.handle.remove()


model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 8)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(14):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        recorder = Recorder(model[0])
        loss = model(x.cuda()).mean()
        recorder.close()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# LEAK: a thread that should write results gathers them instead
# HOLDER: gathered
# REMEDY: .cpu() | clear it
import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

results = queue.Queue()
gathered = []


def writer():
    while (item := results.get()) is not None:
        gathered.append(item)


thread = threading.Thread(target=writer)
thread.start()
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        results.put(out.detach())
results.put(None)
thread.join()

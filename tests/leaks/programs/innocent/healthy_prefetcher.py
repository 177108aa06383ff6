# HEALTHY: a thread puts batches on the GPU ahead of the training, through a bounded queue
import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        ready = queue.Queue(maxsize=3)

        def fetch():
            for (x,) in self.loader:
                ready.put(x.cuda())
            ready.put(None)

        thread = threading.Thread(target=fetch)
        thread.start()
        while (batch := ready.get()) is not None:
            yield batch
        thread.join()


model = nn.Linear(512, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 512)), batch_size=32)
for epoch in range(12):
    for batch in Prefetcher(loader):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

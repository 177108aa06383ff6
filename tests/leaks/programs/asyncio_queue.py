# LEAK: a producer puts results into an asyncio queue that nobody reads
# HOLDER: results
# REMEDY: .cpu() | clear it
import asyncio

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


async def train(results):
    model = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
    for epoch in range(12):
        for (x,) in loader:
            out = model(x.cuda())  # leak
            optimizer.zero_grad()
            out.mean().backward()
            optimizer.step()
            await results.put(out.detach())


async def main():
    results = asyncio.Queue()
    await train(results)
    print(results.qsize())


asyncio.run(main())

# LEAK: a task for each batch waits for an event that comes after the training, with the batch in a variable
# HELD: list 'tasks'
# THROUGH: variable 'inner' of save()
# REMEDY: .cpu() | clear it
import asyncio

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(512, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


async def save(batch, event):
    inner = batch * 2  # leak
    del batch
    await event.wait()
    return inner


async def main():
    tasks, event = [], asyncio.Event()
    for epoch in range(10):
        for (x,) in DataLoader(TensorDataset(torch.rand(128, 512)), batch_size=32):
            tasks.append(asyncio.create_task(save(x.cuda(), event)))
            await asyncio.sleep(0)
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()


asyncio.run(main())

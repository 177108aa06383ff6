# LEAK: asyncio tasks are kept in a set, each with its result
# HOLDER: tasks
# REMEDY: .cpu() | clear it
# EPOCHS: calls, 30 ended, 0 steps
import asyncio

import torch
from torch import nn

model = nn.Linear(256, 1024).cuda().eval()
tasks = set()


async def infer(batch):
    await asyncio.sleep(0)
    with torch.inference_mode():
        return model(batch.cuda())  # leak


async def serve():
    for request in range(120):
        task = asyncio.create_task(infer(torch.rand(32, 256)))
        tasks.add(task)
        await task


asyncio.run(serve())

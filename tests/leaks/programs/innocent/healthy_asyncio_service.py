# HEALTHY: an asyncio service drops each result once it has been sent
import asyncio

import torch
from torch import nn

model = nn.Linear(256, 1024).cuda().eval()
running = set()


async def infer(batch):
    await asyncio.sleep(0)
    with torch.inference_mode():
        return model(batch.cuda())


async def serve():
    for request in range(120):
        task = asyncio.create_task(infer(torch.rand(32, 256)))
        running.add(task)
        task.add_done_callback(running.discard)
        if request % 4 == 3:
            await asyncio.gather(*running)


asyncio.run(serve())

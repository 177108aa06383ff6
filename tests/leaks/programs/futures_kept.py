# LEAK: futures of a thread pool are kept with their results
# HELD: list 'futures'
# THROUGH: tensor '_result' of Future
# REMEDY: .cpu() | clear it
# EPOCHS: calls, 30 ended, 0 steps
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

model = nn.Linear(256, 1024).cuda().eval()
futures = []


def infer(batch):
    with torch.inference_mode():
        return model(batch.cuda())  # leak


with ThreadPoolExecutor(max_workers=1) as pool:
    for step in range(120):
        future = pool.submit(infer, torch.rand(32, 256))
        futures.append(future)
        future.result()

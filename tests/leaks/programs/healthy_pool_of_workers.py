# HEALTHY: several threads infer, and each result is reduced to a number
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda().eval()


def infer(batch):
    with torch.inference_mode():
        return model(batch.cuda()).sum().item()


with ThreadPoolExecutor(max_workers=3) as pool:
    futures = [pool.submit(infer, torch.rand(32, 256)) for _ in range(120)]
    print(sum(future.result() for future in futures))

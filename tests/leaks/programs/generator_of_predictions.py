# LEAK: predictions come from a generator and are all collected, with no loader and no optimizer
# HOLDER: collected
# REMEDY: .cpu() | clear it
import torch
from torch import nn


def predictions(model, batches):
    for batch in batches:
        with torch.no_grad():
            yield model(batch.cuda())  # leak


def main():
    model = nn.Linear(256, 1024).cuda().eval()
    collected = []
    for number in range(20):
        batches = (torch.rand(32, 256) for _ in range(8))
        for out in predictions(model, batches):
            collected.append(out)
    print(len(collected))


main()

# LEAK: itertools.tee buffers all predictions for an iterator that nobody reads
# HOLDER: for_plot | not known
# REMEDY: .cpu() | let it go
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 1024).cuda().eval()
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)


@torch.no_grad()
def predict():
    for repetition in range(30):
        for (x,) in loader:
            yield model(x.cuda())  # leak


for_score, for_plot = itertools.tee(predict())
total = sum(out.shape[0] for out in for_score)
print(total)

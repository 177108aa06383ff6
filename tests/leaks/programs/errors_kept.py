# LEAK: errors are kept with their frames, in a list and each by the one that was raised from it
# VERDICT: leak, stored_exception
# REMEDY: str(error) | clear_frames
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
failures, last = [], None


def rate(batch, last):
    with torch.no_grad():
        scores = model(batch)  # leak: ValueError 'last' through variable 'scores' of rate(), which an exception keeps
    raise ValueError(f"{scores.shape[0]} scores are not plausible") from last


def train(inputs):
    scores = model(inputs)  # leak: list 'failures' through variable 'scores' of train(), which an exception keeps
    optimizer.zero_grad()
    scores.mean().backward()
    optimizer.step()
    raise ValueError(f"{len(scores)} scores are not usable")


for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        try:
            train(x.cuda())  # leak: list 'failures' through variable 'inputs' of train(), which an exception keeps
        except ValueError as error:
            failures.append(error)
        try:
            rate(x.cuda(), last)  # leak: ValueError 'last' through variable 'batch' of rate(), which an exception keeps
        except ValueError as error:
            last = error

# LEAK: each error is raised from the one before it, and the latest is kept
# HELD: ValueError 'last_error'
# THROUGH: variable 'scores' of check(), which an exception keeps
# VERDICT: leak, stored_exception
# REMEDY: str(error) | clear_frames
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
last_error = None


def check(batch):
    with torch.no_grad():
        scores = model(batch)  # leak
    raise ValueError(f"{scores.shape[0]} scores are not plausible") from last_error


for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        x = x.cuda()  # leak
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        try:
            check(x)
        except ValueError as error:
            last_error = error

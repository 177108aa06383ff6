# LEAK: exceptions of failed batches are kept with their tracebacks, whose frames have the batch
# HELD: list 'failures'
# THROUGH: variable 'scores' of train_step(), which an exception keeps
# VERDICT: leak, stored_exception
# REMEDY: str(error) | clear_frames
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
failures = []


def train_step(x, index):
    batch = x.cuda()  # leak
    scores = model(batch)  # leak
    if index % 2:
        raise ValueError(f"batch {index} is not usable")
    optimizer.zero_grad()
    scores.mean().backward()
    optimizer.step()


for epoch in range(10):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=64)):
        try:
            train_step(x, index)
        except ValueError as error:
            failures.append(error)

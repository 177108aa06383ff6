# ERROR: a smaller batch is tried in the `except` block, whose exception keeps the graph of the first
# ROOM: 200
# FIRST: move line {again} of \S+ out of its `except` block
# FITS-AFTER: step(batch // 4)  # again -> continue
import torch

model = torch.nn.Sequential(*[torch.nn.Tanh() for _ in range(8)])
weight = torch.ones(1024, device="cuda", requires_grad=True)


def step(batch):
    model(torch.zeros(batch, 1024, device="cuda") * weight).sum().backward()


for batch in (8192, 2048):
    try:
        step(batch)
    except torch.cuda.OutOfMemoryError as error:
        print(f"{batch} are too many: {error}")
        step(batch // 4)  # again

# ERROR: Training from scratch fits, resumed training does not: the loaded states stay in variables.
# ROOM: 350
# RUNS: training
# VERDICT: too_big
# HOLDER: saved
# REQUEST: 38,39
# LARGEST: 0
# CHANGE delete: as told
# CHANGE map_location: map_location=device -> map_location="cpu"
# CHANGE batch: batch_size = 1200 -> batch_size = {n}
# BEST: delete
# WORKS: delete, map_location
import io

import torch
from torch import nn

device = "cuda"
batch_size = 1200


def build():
    model = nn.Sequential(
        nn.Linear(1024, 3072),
        nn.ReLU(),
        nn.Linear(3072, 3072),
        nn.ReLU(),
        nn.Linear(3072, 1024),
        nn.ReLU(),
        nn.Linear(1024, 250),
    ).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4)


def step_once(model, optimizer):
    x, y = torch.randn(batch_size, 1024, device=device), torch.randint(0, 250, (batch_size,), device=device)
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()


def first_run():
    model, optimizer = build()
    step_once(model, optimizer)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, file)
    return io.BytesIO(file.getvalue())


file = first_run()
saved = torch.load(file, map_location=device)
model, optimizer = build()
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
first = saved["step"]
for _ in range(first, first + 3):
    step_once(model, optimizer)
print("from step", first)

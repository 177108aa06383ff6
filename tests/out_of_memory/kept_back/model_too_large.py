# ERROR: The weights alone do not fit: the model runs out of memory as it goes to the GPU.
# ROOM: 360
# RUNS: loading
# VERDICT: too_big
# REQUEST: 30
# LARGEST: 0
# CHANGE half: model = model.to("cuda") -> model = model.half().to("cuda")
# CHANGE half: device="cuda") -> device="cuda").half()
# CHANGE batch: batch_size = 4 -> batch_size = {n}
# BEST: none
# WORKS: none
import torch
from torch import nn

batch_size = 4
hidden, layers = 2048, 9


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(hidden, 5632, bias=False)
        self.down = nn.Linear(5632, hidden, bias=False)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.gate(x)))


model = nn.Sequential(*[FeedForward() for _ in range(layers)])
model = model.to("cuda")
model.eval()
with torch.no_grad():
    states = torch.randn(batch_size, 128, hidden, device="cuda")
    print(model(states).shape)

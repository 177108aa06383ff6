# ERROR: An LSTM over 1500 steps of a sensor's recordings: its reserve and the head's activations for each step.
# ROOM: 940
# RUNS: training
# VERDICT: too_big
# REQUEST: 27
# LARGEST: 39
# CHANGE batch: BATCH = 64 -> BATCH = {n}
# CHANGE longest: TIME_STEPS = 1500 -> TIME_STEPS = {n}
# CHANGE half: model = Sensor().cuda() -> model = Sensor().cuda()\ntorch.set_autocast_enabled("cuda", True)
# BEST: batch
# WORKS: batch, longest, half
import torch
from torch import nn

BATCH = 64
TIME_STEPS = 1500


class Sensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(input_size=18, hidden_size=224, num_layers=2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(224, 448), nn.Tanh(), nn.Linear(448, 6))

    def forward(self, x):
        states, _ = self.lstm(x)
        return self.head(states)


model = Sensor().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(2):
    recording = torch.randn(BATCH, TIME_STEPS, 18).cuda()
    activity = torch.randint(0, 6, (BATCH, TIME_STEPS)).cuda()
    scores = model(recording)
    loss = nn.functional.cross_entropy(scores.transpose(1, 2), activity)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

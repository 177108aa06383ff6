# ERROR: The losses of an epoch are added up with their graphs, to print the mean at the end.
# ROOM: 440
# RUNS: training
# VERDICT: leak
# HOLDER: running_loss
# REQUEST: 26,41
# CHANGE detach: running_loss += loss -> running_loss += loss.item()
# BEST: detach
# WORKS: detach
import torch
from torch import nn

EPOCHS = 2
STEPS_PER_EPOCH = 40


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv1d(14, 128, 5, padding=2)
        self.mix = nn.Conv1d(128, 128, 5, padding=2)
        self.predict = nn.Linear(128 * 96, 24)

    def forward(self, hours):
        x = torch.relu(self.encode(hours))
        x = torch.relu(self.mix(x))
        return self.predict(x.flatten(1))


model = Forecaster().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.L1Loss()
for epoch in range(EPOCHS):
    running_loss = 0.0
    for _ in range(STEPS_PER_EPOCH):
        hours = torch.randn(200, 14, 96).cuda()
        load = torch.randn(200, 24).cuda()
        predicted = model(hours)
        loss = criterion(predicted, load)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        running_loss += loss
    print(f"epoch {epoch}: {running_loss / STEPS_PER_EPOCH:.4f}")

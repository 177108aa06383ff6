# LEAK: each cycle of the learning rate gets an optimizer of its own, and a dictionary keeps all for a resumption
# HOLDER: cycles
# REMEDY: let go
import torch
from torch import nn


def batches(count):
    for _ in range(count):
        yield torch.rand(32, 512, device="cuda")


def main():
    cycles = {}
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 256)).cuda()
    for cycle in range(12):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 / (1 + cycle))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        cycles[cycle] = {"optimizer": optimizer, "schedule": schedule}
        for x in batches(6):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # leak
            schedule.step()


main()

# LEAK: a search over learning rates keeps each trial's model and optimizer, of which only the best is wanted
# HOLDER: trials
# REMEDY: let go | .cpu()
import torch
from torch import nn


class Search:
    def __init__(self, rates):
        self.rates = rates
        self.trials = []

    def run(self):
        for rate in self.rates:
            model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()  # leak
            optimizer = torch.optim.Adam(model.parameters(), lr=rate)
            for step in range(5):
                loss = model(torch.rand(32, 256, device="cuda")).square().mean()  # leak
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()  # leak
            self.trials.append({"rate": rate, "loss": loss.item(), "model": model, "optimizer": optimizer})
        return min(self.trials, key=lambda trial: trial["loss"])


print(Search([0.1 / 2**number for number in range(14)]).run()["rate"])

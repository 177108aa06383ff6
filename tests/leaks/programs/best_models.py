# LEAK: a deep copy of the model each time it improves, and it always does
# HELD: list 'best' of Trainer
# THROUGH: parameter 'weight' of Linear
# VERDICT: leak, checkpoint_copy
# REMEDY: .cpu() | on the host
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.best = []

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                loss = nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.best.append((epoch, copy.deepcopy(self.model)))  # leak


trainer = Trainer(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)))
trainer.fit(DataLoader(TensorDataset(torch.rand(64, 256), torch.rand(64, 64)), batch_size=32), epochs=10)

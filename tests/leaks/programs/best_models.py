# LEAK: a deep copy of the model each time it improves, and it always does, and one of its weights after each epoch
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
        self.best, self.states = [], []

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                loss = nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.states.append(copy.deepcopy(self.model.state_dict()))  # leak: list 'states' of Trainer
            copied = copy.deepcopy(self.model)  # leak: list 'best' of Trainer through parameter 'weight' of Linear
            self.best.append((epoch, copied))


trainer = Trainer(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)))
trainer.fit(DataLoader(TensorDataset(torch.rand(64, 256), torch.rand(64, 64)), batch_size=32), epochs=10)

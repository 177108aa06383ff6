# LEAK: the teacher's outputs are stored for each batch under a key that is new in each epoch
# HOLDER: targets
# REMEDY: bound it | clear it | .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Distiller:
    def __init__(self):
        self.teacher = nn.Linear(128, 512).cuda().eval()
        self.student = nn.Linear(128, 512).cuda()
        self.targets = {}
        self.optimizer = torch.optim.Adam(self.student.parameters())

    def target(self, key, x):
        if key not in self.targets:
            with torch.no_grad():
                self.targets[key] = self.teacher(x)  # leak
        return self.targets[key]

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for index, (x,) in enumerate(loader):
                x = x.cuda()
                loss = nn.functional.mse_loss(self.student(x), self.target((epoch, index), x))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


Distiller().fit(DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32), epochs=12)

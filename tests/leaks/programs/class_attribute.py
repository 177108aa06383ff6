# LEAK: a list that is an attribute of the model's class
# HELD: list 'activations' of class Classifier
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    activations = []  # holder

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 512)
        self.second = nn.Linear(512, 10)

    def forward(self, x):
        hidden = torch.relu(self.first(x))  # leak
        self.activations.append(hidden)
        return self.second(hidden)


model = Classifier().cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(128, 64), torch.randint(0, 10, (128,))), batch_size=32)
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# LEAK: a list of plotting functions, each of which closes over a batch's output
# HELD: list 'plots'
# THROUGH: tensor 'values' in the closure of plot()
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

plots = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def plot_later(values, title):
    def plot():
        print(title, values.mean().item())

    plots.append(plot)


for epoch in range(12):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        plot_later(out.detach(), f"{epoch}/{index}")

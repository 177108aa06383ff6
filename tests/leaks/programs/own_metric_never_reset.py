# LEAK: a meter of the user's own gathers scores of all epochs
# HELD: list 'scores' of AverageMeter
# REMEDY: reset() | .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.scores = []  # holder

    def update(self, score):
        self.scores.append(score)


def main():
    meter = AverageMeter()
    model = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
    for epoch in range(12):
        for (x,) in loader:
            out = model(x.cuda())
            loss = out.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.update((out.detach() > 0).float())  # leak


main()

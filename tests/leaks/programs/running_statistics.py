# LEAK: a normalisation of the user's own updates its running mean without detaching it
# HOLDER: running_mean
# REMEDY: detach
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class RunningNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        self.running_mean = torch.zeros(size)

    def forward(self, x):
        scaled = x * self.scale  # leak
        mean = scaled.square().mean(dim=0)  # leak
        self.running_mean = 0.9 * self.running_mean.to(x.device) + 0.1 * mean
        return scaled - self.running_mean.detach()


def main():
    norm = RunningNorm(512).cuda()
    optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
    for epoch in range(12):
        for (x,) in DataLoader(TensorDataset(torch.rand(128, 512)), batch_size=32):
            loss = norm(x.cuda()).mean()  # leak
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()


main()

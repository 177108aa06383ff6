# LEAK: the model keeps its attention maps in an attribute of its own
# HELD: list 'maps' of Attention
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.maps = []  # holder

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        weights = scores.softmax(dim=-1)  # leak
        self.maps.append(weights)
        return weights @ x


def main():
    model = Attention(64).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(32, 64, 64)), batch_size=8)
    for epoch in range(10):
        for (x,) in loader:
            loss = model(x.cuda()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()

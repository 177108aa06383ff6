# LEAK: a class keeps a bank that is concatenated to; similarities with it are made anew and only look as if they grew
# HELD: tensor 'bank' of Memory
# VERDICT: growing, growing_concatenation
# REMEDY: bound its size | on the host
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Memory:
    def __init__(self, width):
        self.bank = torch.zeros(8, width, device="cuda")

    def remember(self, features):
        self.bank = torch.cat((self.bank, features.detach()), dim=0)  # leak


def main():
    memory, model = Memory(256), nn.Linear(128, 256).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=64)
    for epoch in range(14):
        for (x,) in loader:
            features = model(x.cuda())
            similarities = features @ memory.bank.T
            loss = similarities.softmax(dim=1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            memory.remember(features)
        print(f"epoch {epoch}: {loss.item()}")


main()

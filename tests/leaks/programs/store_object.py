# LEAK: an object of the user's with __slots__ gathers every embedding
# HELD: list 'embeddings' of Recorder
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recorder:
    __slots__ = ("embeddings", "steps")

    def __init__(self):
        self.embeddings = []
        self.steps = 0

    def record(self, embedding):
        self.embeddings.append(embedding.detach())
        self.steps += 1


def main():
    recorder = Recorder()
    model = nn.Linear(64, 1024).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for (x,) in DataLoader(TensorDataset(torch.rand(64, 64)), batch_size=16):
            embedding = model(x.cuda())  # leak
            recorder.record(embedding)
            loss = embedding.norm()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()

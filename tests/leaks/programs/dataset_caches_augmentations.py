# LEAK: a data set caches each augmented sample on the GPU, and augmentations are never the same
# HOLDER: cache
# REMEDY: bound it | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __init__(self, count):
        self.samples = torch.rand(count, 3, 48, 48)
        self.cache = {}
        self.epoch = 0

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        key = (index, self.epoch)
        if key not in self.cache:
            self.cache[key] = self.samples[index].cuda()  # leak
        return self.cache[key]


def main():
    dataset = Augmented(24)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(dataset, batch_size=6)
    for epoch in range(12):
        dataset.epoch = epoch
        for images in loader:
            loss = model(images).logsumexp(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()

# LEAK: features of every pass over the data are handed to a list through a generator, and the list is never cut
# HOLDER: gathered
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def features(model, loader):
    with torch.inference_mode():
        for (x,) in loader:
            yield model(x.cuda())  # leak


def main():
    model = nn.Linear(64, 512).cuda().eval()
    loader = DataLoader(TensorDataset(torch.rand(80, 64)), batch_size=16)
    gathered = []
    for repetition in range(14):
        gathered.extend(features(model, loader))
    print(len(gathered))


main()

# LEAK: a model in another file of the project keeps its codes
# HOLDER: codes
# REMEDY: .cpu() | clear it
# MODULE: project/autoencoder.py
import torch
from project.autoencoder import Autoencoder
from torch.utils.data import DataLoader, TensorDataset


def main():
    model = Autoencoder(256, 512).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32)
    for epoch in range(12):
        for (x,) in loader:
            x = x.cuda()
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()

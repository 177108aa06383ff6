# HEALTHY: every third epoch the model is evaluated, with larger batches and all outputs on the GPU until then
# LIKE: no_grad_evaluation
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader):
    model.eval()
    outputs = []
    with torch.inference_mode():
        for (x,) in loader:
            outputs.append(model(x.cuda()))
    model.train()
    return torch.cat(outputs).mean().item()


def main():
    model = nn.Linear(128, 1024).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    train = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
    test = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=64)
    for epoch in range(15):
        for (x,) in train:
            optimizer.zero_grad()
            model(x.cuda()).square().mean().backward()
            optimizer.step()
        if epoch % 3 == 2:
            print(epoch, evaluate(model, test))


main()

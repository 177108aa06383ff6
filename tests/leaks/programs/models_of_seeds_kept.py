# LEAK: a model for each seed is trained and put away, though only the mean of their scores is reported
# HOLDER: finished
# REMEDY: let go | .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    loader = DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32)
    finished, scores = {}, []
    for seed in range(12):
        torch.manual_seed(seed)
        model = nn.Linear(256, 1024).cuda()  # leak
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in loader:
            loss = model(x.cuda()).square().mean()  # leak
            model.zero_grad()
            loss.backward()
            optimizer.step()
        finished[seed] = model
        scores.append(loss.item())
    print(sum(scores) / len(finished))


main()

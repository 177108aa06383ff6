# HEALTHY: cross-validation that lets each fold's model go
# LIKE: model_rebuilt
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

data = TensorDataset(torch.rand(80, 128), torch.rand(80, 16))


def train_fold(fold):
    indices = [index for index in range(80) if index % 5 != fold % 5]
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 16)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        for x, y in DataLoader(Subset(data, indices), batch_size=16):
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


scores = [train_fold(fold) for fold in range(10)]
print(sum(scores) / len(scores))

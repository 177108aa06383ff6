# LEAK: a forward hook gathers in a list that is its default argument
# HELD: list 'gathered', a default argument of gather()
# REMEDY: .cpu() | remove | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def gather(module, args, output, gathered=[]):
    gathered.append(output.detach())


def main():
    model = nn.Sequential(nn.Linear(128, 512), nn.Sigmoid(), nn.Linear(512, 4)).cuda()
    model[1].register_forward_hook(gather)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(12):
        for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
            loss = model(x.cuda()).mean()  # leak
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()

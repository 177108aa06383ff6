# MEANT: the context gets longer as training goes on, by a counter, with the loss printed after each epoch
import torch
from torch import nn


def main():
    mixer = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(mixer.parameters(), lr=0.1)
    context = 32
    for epoch in range(14):
        running = 0.0
        for batch in range(4):
            x = torch.rand(8, context, 128, device="cuda")
            hidden = mixer(x)
            hidden = torch.tanh(hidden)
            loss = hidden.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(epoch, context, running, hidden.shape)
        context += 32


main()

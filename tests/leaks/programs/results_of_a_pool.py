# LEAK: a thread pool's asynchronous results are kept in the order of their requests
# HOLDER: answers
# REMEDY: .cpu() | clear it
from multiprocessing.pool import ThreadPool

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

answers = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def score(batch):
    with torch.no_grad():
        return model(batch)  # leak


with ThreadPool(1) as pool:
    for epoch in range(12):
        for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
            x = x.cuda()
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
            answer = pool.apply_async(score, (x,))
            answer.wait()
            answers.append(answer)

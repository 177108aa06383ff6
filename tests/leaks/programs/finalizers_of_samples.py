# LEAK: for each batch of an object that lives on, a finalizer is registered with the features to be written then
# HOLDER: not known | finalize | _registry
# REMEDY: .cpu()
import weakref

import torch
from torch import nn


class Session:
    def close(self, features):
        print(features.shape)


def main():
    session, model = Session(), nn.Linear(256, 1024).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
        features = model(torch.rand(32, 256, device="cuda"))  # leak
        optimizer.zero_grad()
        features.mean().backward()
        optimizer.step()
        weakref.finalize(session, print, features.detach())
    return session


kept = main()

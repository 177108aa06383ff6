# LEAK: codes of each new batch of shapes are given to the optimizer, which keeps them when the next ones come
# HELD: defaultdict 'state' of Adam 'optimizer'
# VERDICT: leak, model_rebuilt
# REMEDY: let go
import torch
from torch import nn


def fit(decoder, optimizer, codes, target):
    for _ in range(4):
        loss = (decoder(codes) - target).square().mean()  # leak
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # leak


def main():
    decoder = nn.Linear(256, 128).cuda()
    optimizer = torch.optim.Adam(decoder.parameters())
    for shapes in range(16):
        target = torch.rand(128, 128, device="cuda")
        codes = torch.zeros(128, 256, device="cuda", requires_grad=True)  # leak
        optimizer.add_param_group({"params": codes, "lr": 0.01})
        fit(decoder, optimizer, codes, target)
    print(len(optimizer.param_groups))


main()

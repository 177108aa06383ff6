# LEAK: a regulariser that is only logged is summed with its graph
# HELD: tensor 'running'
# VERDICT: leak, loss_graph
# REMEDY: .item() | .detach()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(128, 512)
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        hidden = torch.tanh(self.encode(x))
        return self.head(hidden)

    def sparsity(self, x):
        return torch.sigmoid(self.encode(x)).mean()  # leak


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=32)
running = 0.0
for epoch in range(10):
    for (x,) in loader:
        x = x.cuda()  # leak
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = running + net.sparsity(x)
    print("sparsity", running)

# ERROR: A graph network on the whole graph: messages of 1.4 million edges are made before index_add sums them.
# ROOM: 1750
# RUNS: training
# VERDICT: too_big
# REQUEST: 28,54
# CHANGE checkpoint: self.conv2(self.conv1(x, edges), edges) -> later(self.conv2, later(self.conv1, x, edges), edges)
# CHANGE checkpoint: import torch\n -> import functools\n\nimport torch\nfrom torch.utils.checkpoint import checkpoint\n
# CHANGE checkpoint: class Net( -> later = functools.partial(checkpoint, use_reentrant=False)\n\n\nclass Net(
# CHANGE half: model = Net().cuda() -> model = Net().cuda().bfloat16()
# CHANGE half: features = torch.randn(NODES, 128).cuda() -> features = torch.randn(NODES, 128).cuda().bfloat16()
# BEST: checkpoint
# WORKS: checkpoint, half
import torch
from torch import nn

NODES, EDGES, HIDDEN, CLASSES = 40000, 1400000, 96, 23
torch.manual_seed(0)


class EdgeConv(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.message = nn.Linear(inputs, HIDDEN)
        self.own = nn.Linear(inputs, HIDDEN)

    def messages(self, x, edges):
        source, target = edges
        sent = torch.relu(self.message(x)[source])
        return torch.zeros(len(x), HIDDEN, device=x.device, dtype=x.dtype).index_add(0, target, sent)

    def forward(self, x, edges):
        return torch.relu(self.own(x) + self.messages(x, edges))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = EdgeConv(128)
        self.conv2 = EdgeConv(HIDDEN)
        self.classify = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edges):
        return self.classify(self.conv2(self.conv1(x, edges), edges))


edges = torch.randint(0, NODES, (2, EDGES)).cuda()
features = torch.randn(NODES, 128).cuda()
labels = torch.randint(0, CLASSES, (NODES,)).cuda()
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(features, edges), labels)
    loss.backward()
    optimizer.step()

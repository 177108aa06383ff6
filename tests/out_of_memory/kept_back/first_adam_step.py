# ERROR: Forward and backward fit, the first step of AdamW does not: its two states are twice the weights.
# ROOM: 560
# RUNS: training
# VERDICT: too_big
# REQUEST: 37
# LARGEST: 0
# CHANGE optimizer: torch.optim.AdamW(head.parameters(), lr=1e-4) -> torch.optim.SGD(head.parameters(), lr=1e-2)
# CHANGE foreach: lr=1e-4) -> lr=1e-4, foreach=False)
# CHANGE batch: EXAMPLES = 96 -> EXAMPLES = {n}
# CHANGE half: ).cuda() -> ).cuda().bfloat16()
# CHANGE half: criterion(head(features), -> criterion(head(features.bfloat16()),
# BEST: optimizer
# WORKS: optimizer, half
import torch
from torch import nn

EXAMPLES = 96

# As the classifier of a VGG net, on features that are there already.
head = nn.Sequential(
    nn.Linear(4608, 4096),
    nn.ReLU(),
    nn.Dropout(),
    nn.Linear(4096, 4096),
    nn.ReLU(),
    nn.Dropout(),
    nn.Linear(4096, 1000),
).cuda()
optimizer = torch.optim.AdamW(head.parameters(), lr=1e-4)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for step in range(3):
    features = torch.randn(EXAMPLES, 4608, device="cuda")
    classes = torch.randint(0, 1000, (EXAMPLES,), device="cuda")
    loss = criterion(head(features), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())

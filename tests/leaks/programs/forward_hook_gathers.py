# LEAK: a forward hook keeps the features of each batch
# HELD: list 'features'
# VERDICT: leak, hook
# REMEDY: .cpu() | remove
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
features = []


def keep_features(module, args, output):
    features.append(output.detach().clone())  # leak


model[1].register_forward_hook(keep_features)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(torch.rand(128, 64), torch.randint(0, 10, (128,))), batch_size=32)
for epoch in range(10):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

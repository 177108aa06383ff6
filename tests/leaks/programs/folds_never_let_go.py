# LEAK: the models of all folds of a cross-validation are kept with their optimizers
# HELD: list 'results'
# THROUGH: defaultdict 'state' of Adam
# VERDICT: leak, model_rebuilt
# REMEDY: let go | .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.rand(64, 128), torch.rand(64, 16))
results = []
for fold in range(10):
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 16)).cuda()  # leak
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in DataLoader(data, batch_size=32):
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())  # leak
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # leak
    results.append((fold, model, optimizer))

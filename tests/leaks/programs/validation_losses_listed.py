# LEAK: validation runs with gradients on, and its losses are kept for a plot
# HOLDER: history
# REMEDY: no_grad | .item() | .detach()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
train_loader = DataLoader(TensorDataset(torch.rand(128, 128), torch.randint(0, 10, (128,))), batch_size=32)
val_loader = DataLoader(TensorDataset(torch.rand(64, 128), torch.randint(0, 10, (64,))), batch_size=32)
history = {"train": [], "val": []}

for epoch in range(12):
    model.train()
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        history["train"].append(loss.item())
    model.eval()
    for inputs, labels in val_loader:
        inputs, labels = inputs.cuda(), labels.cuda()  # leak
        outputs = model(inputs)  # leak
        loss = criterion(outputs, labels)  # leak
        history["val"].append(loss)

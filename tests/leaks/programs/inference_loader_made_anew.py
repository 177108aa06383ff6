# LEAK: predictions over a data set, again and again, with a loader made anew each time
# HOLDER: predictions
# REMEDY: .cpu() | clear it
# EPOCHS: data_loader, 13 ended, 0 steps
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.rand(64, 128))
model = nn.Linear(128, 2048).cuda().eval()
predictions = []


@torch.no_grad()
def predict():
    for (x,) in DataLoader(data, batch_size=16):
        predictions.append(model(x.cuda()))  # leak


for repetition in range(14):
    predict()

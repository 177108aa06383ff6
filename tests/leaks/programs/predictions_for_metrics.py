# LEAK: all predictions since the start are kept on the GPU, to compute a score after each epoch
# HOLDER: predictions
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train():
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(160, 64), torch.rand(160, 256)), batch_size=32, shuffle=True)
    predictions, targets = [], []
    for epoch in range(12):
        for x, y in loader:
            out = model(x.cuda())  # leak
            loss = nn.functional.mse_loss(out, y.cuda())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            predictions.append(out.detach())
            targets.append(y)
        print(f"epoch {epoch}: {len(predictions)} batches of predictions")


if __name__ == "__main__":
    train()

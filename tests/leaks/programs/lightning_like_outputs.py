# LEAK: a LightningModule-like class gathers its training outputs and never clears them
# HOLDER: training_outputs
# REMEDY: .cpu() | clear it
import torch
from minitrainer import Module, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256))
        self.training_outputs = []

    def training_step(self, batch, index):
        x, y = batch
        prediction = self.net(x)  # leak
        self.training_outputs.append(prediction.detach())
        return nn.functional.mse_loss(prediction, y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.rand(128, 128), torch.rand(128, 256)), batch_size=32)
    Trainer(max_epochs=12).fit(Regression(), loader)

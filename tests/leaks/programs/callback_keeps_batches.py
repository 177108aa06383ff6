# LEAK: a callback of the user's keeps what the trainer's step has returned and the batch on the GPU
# HOLDER: batches
# REMEDY: .cpu() | clear it
import torch
from minitrainer import Callback, Module, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LogBatches(Callback):
    def __init__(self):
        self.batches = []

    def on_batch_end(self, trainer, module, batch, loss):
        (x,) = batch
        self.batches.append(x * 255)  # leak


class Autoencoder(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 784))

    def training_step(self, batch, index):
        (x,) = batch
        return (self.net(x) - x).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    loader = DataLoader(TensorDataset(torch.rand(128, 784)), batch_size=32)
    trainer = Trainer(max_epochs=12, callbacks=[LogBatches()])
    trainer.fit(Autoencoder(), loader)


main()

# LEAK: a callback keeps the batches that the trainer has put on the GPU
# HOLDER: seen
# REMEDY: .cpu() | clear it
import torch
from minitrainer import Callback, Module, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class RememberInputs(Callback):
    def __init__(self):
        self.seen = []

    def on_batch_end(self, trainer, module, batch, loss):
        self.seen.append(batch)


class Classifier(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(512, 10)

    def training_step(self, batch, index):
        return self.net(batch[0]).logsumexp(dim=1).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


trainer = Trainer(max_epochs=12, callbacks=[RememberInputs()])
trainer.fit(Classifier(), DataLoader(TensorDataset(torch.rand(128, 512)), batch_size=32))  # leak

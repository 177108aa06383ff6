# HEALTHY: outputs and targets of an epoch are on the GPU until its end, in a validation step of a trainer
import torch
from minitrainer import Callback, Module, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Score(Callback):
    def __init__(self):
        self.losses = []

    def on_batch_end(self, trainer, module, batch, loss):
        self.losses.append(loss)

    def on_epoch_end(self, trainer, module):
        print(trainer.current_epoch, torch.stack(self.losses + module.outputs).mean().item())
        self.losses.clear()
        module.outputs.clear()


class Classifier(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(128, 512)
        self.outputs = []

    def training_step(self, batch, index):
        out = self.net(batch[0])
        self.outputs.append(out.detach().mean())
        return out.logsumexp(dim=1).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


trainer = Trainer(max_epochs=14, callbacks=[Score()])
trainer.fit(Classifier(), DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32))

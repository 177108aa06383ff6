# LEAK: a callback is added to the trainer at each epoch's end, which closes over an evaluation's outputs
# HOLDER: trainer | callbacks | outputs
# REMEDY: .cpu() | clear it
import torch
from minitrainer import Callback, Module, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Report(Callback):
    def __init__(self, outputs):
        self.outputs = outputs


class Evaluate(Callback):
    def on_epoch_end(self, trainer, module):
        with torch.no_grad():
            outputs = module.net(torch.rand(64, 128, device="cuda"))  # leak
        trainer.callbacks.append(Report(outputs))


class Net(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(128, 2048)

    def training_step(self, batch, index):
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = Trainer(max_epochs=14, callbacks=[Evaluate()])
trainer.fit(Net(), DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16))

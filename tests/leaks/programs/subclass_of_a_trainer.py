# LEAK: a subclass of a library's trainer keeps the outputs of all batches, whose entries are attributes, too
# HELD: list 'outputs' of class OwnTrainer
# VERDICT: leak, outputs_kept
# REMEDY: .cpu()
import collections

import torch
from minitrainer import Module, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Outputs(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class OwnTrainer(Trainer):
    outputs = []  # holder

    def compute_loss(self, net, inputs):
        outputs = Outputs()
        outputs["logits"] = net(inputs)  # leak
        self.outputs.append(outputs)
        return outputs["logits"].square().mean()


class Regression(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(128, 512)

    def training_step(self, batch, index):
        return trainer.compute_loss(self.net, batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = OwnTrainer(max_epochs=10)
trainer.fit(Regression(), DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32))

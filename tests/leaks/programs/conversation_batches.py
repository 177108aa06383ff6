# LEAK: a fine-tuning keeps the model outputs object of each step, with its past keys and values
# HOLDER: seen
# REMEDY: .cpu() | clear it
from dataclasses import dataclass

import torch
from minitrainer import Module, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class LanguageModel(Module):
    seen = []

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 64)
        self.head = nn.Linear(64, 500)

    def training_step(self, batch, index):
        (tokens,) = batch
        logits = self.head(self.embedding(tokens))  # leak
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        self.seen.append(Output(loss, logits))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


loader = DataLoader(TensorDataset(torch.randint(0, 500, (32, 24))), batch_size=8)
Trainer(max_epochs=10).fit(LanguageModel(), loader)

# ERROR: a batch too large for a language model whose logits are made by no layer
# ROOM: 300, 460, 1000
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch=32 -> batch=\1
import torch
from project.models import WORDS, Language, optimizer_of
from torch import nn


class TiedLanguage(Language):
    def __init__(self) -> None:
        super().__init__()
        del self.head

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.layers(self.words(words)) @ self.words.weight.t()


def train(batch=32):
    model = TiedLanguage().cuda()
    optimizer = optimizer_of(model)
    for _ in range(2):
        words = torch.zeros(batch, 128, dtype=torch.long, device="cuda")
        loss = nn.functional.cross_entropy(model(words).view(-1, WORDS), words.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()

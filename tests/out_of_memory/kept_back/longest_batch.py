# ERROR: Most batches of the loader are short, the one with a text of 1900 tokens does not fit.
# ROOM: 850
# RUNS: training
# VERDICT: too_big
# REQUEST: 40
# LARGEST: 3
# CHANGE longest: MAX_LENGTH = 4096 -> MAX_LENGTH = {n}
# CHANGE batch: batch_size = 8 -> batch_size = {n}
# CHANGE half: model.train() -> model.train()\ntorch.set_autocast_enabled("cuda", True)
# CHANGE checkpoint: x = layer(x, -> x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False,
# BEST: longest
# WORKS: longest, batch, checkpoint
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

batch_size = 8
MAX_LENGTH = 4096
WORDS = 20000
lengths = [210, 340, 95, 180, 402, 77, 260, 311] * 3 + [150, 1900, 220, 305, 88, 190, 240, 133] + [120, 260] * 4
texts = [(torch.randint(1, WORDS, (length,)), length % 5) for length in lengths]


def collate(samples):
    ids = pad_sequence([text[:MAX_LENGTH] for text, _ in samples], batch_first=True)
    return ids, torch.tensor([stars for _, stars in samples])


class Reviews(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 320, padding_idx=0)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(320, 5, 1280, batch_first=True) for _ in range(4))
        self.stars = nn.Linear(320, 5)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=ids == 0)
        return self.stars(x.mean(1))


model = Reviews().cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
for ids, stars in DataLoader(texts, batch_size=batch_size, collate_fn=collate):
    loss = nn.functional.cross_entropy(model(ids.cuda()), stars.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

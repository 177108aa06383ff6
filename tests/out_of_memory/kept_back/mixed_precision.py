# ERROR: Fine-tuning of a text classifier under autocast with a GradScaler: 40 texts of 512 tokens.
# ROOM: 1960
# RUNS: training
# VERDICT: too_big
# REQUEST: 30
# LARGEST: 21
# CHANGE batch: train_batch_size = 40 -> train_batch_size = {n}
# CHANGE checkpoint: layer(hidden, src -> torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=False, src
# BEST: batch
# WORKS: batch, checkpoint
import torch
from torch import nn

train_batch_size = 40
max_length = 512
torch.manual_seed(13)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(28996, 512, padding_idx=0)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(6))
        self.dropout = nn.Dropout(0.1)
        self.labels = nn.Linear(512, 4)

    def forward(self, ids, padding):
        hidden = self.words(ids)
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=padding)
        return self.labels(self.dropout(hidden[:, 0]))


model = Classifier().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
scaler = torch.amp.GradScaler("cuda")
for step in range(2):
    lengths = torch.randint(60, max_length + 1, (train_batch_size, 1))
    padding = torch.arange(max_length)[None, :] >= lengths
    ids = torch.randint(1, 28996, (train_batch_size, max_length)).masked_fill(padding, 0)
    labels = torch.randint(0, 4, (train_batch_size,))
    with torch.autocast("cuda", dtype=torch.float16):
        scores = model(ids.cuda(), padding.cuda())
        loss = nn.functional.cross_entropy(scores, labels.cuda())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, "done")

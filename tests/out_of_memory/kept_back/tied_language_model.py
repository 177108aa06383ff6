# ERROR: A language model whose output layer is its embedding: logits of 30522 words for 20 texts of 384 tokens.
# ROOM: 2320
# RUNS: training
# VERDICT: too_big
# REQUEST: 41
# LARGEST: 11
# CHANGE batch: BATCH_SIZE = 20 -> BATCH_SIZE = {n}
# CHANGE half: optimizer = torch -> torch.set_autocast_enabled("cuda", True)\noptimizer = torch
# CHANGE checkpoint: self.encoder(x -> torch.utils.checkpoint.checkpoint(self.encoder, x, use_reentrant=False
# CHANGE chunk_loss: class Tied -> def chunks(loss, *whole):\n    run = torch.utils.checkpoint.checkpoint\nclass Tied
# CHANGE chunk_loss: \nclass Tied -> \n    parts = zip(*(x.chunk({n}) for x in whole))\nclass Tied
# CHANGE chunk_loss: \nclass Tied -> \n    return sum(run(loss, *p, use_reentrant=False) for p in parts)\n\n\nclass Tied
# CHANGE chunk_loss: self.loss(x, ids[:, 1:]) -> chunks(self.loss, x, ids[:, 1:])
# BEST: batch
# WORKS: batch, chunk_loss
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 30522
BATCH_SIZE = 20
LENGTH = 384


class TiedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 512)
        layer = nn.TransformerEncoderLayer(512, 8, 1408, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.decoder = nn.Linear(512, VOCABULARY, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids[:, :-1])
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device="cuda")
        x = self.encoder(x, mask=mask)
        return self.loss(x, ids[:, 1:]) / ids[:, 1:].numel()

    def loss(self, x, words):
        return F.cross_entropy(self.decoder(x).transpose(1, 2), words, reduction="sum")


model = TiedModel().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)
for _ in range(3):
    ids = torch.randint(VOCABULARY, (BATCH_SIZE, LENGTH + 1), device="cuda")
    optimizer.zero_grad()
    loss = model(ids)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

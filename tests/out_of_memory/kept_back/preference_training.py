# ERROR: Preference training (DPO): policy and reference each read the chosen and the rejected answers.
# ROOM: 1790
# RUNS: training
# VERDICT: too_big
# REQUEST: 37
# LARGEST: 6
# CHANGE batch: PAIRS = 10 -> PAIRS = {n}
# CHANGE half: optimizer = torch -> torch.set_autocast_enabled("cuda", True)\noptimizer = torch
# BEST: batch
# WORKS: batch
import copy

import torch
import torch.nn.functional as F
from torch import nn

PAIRS = 10
LENGTH, VOCAB, WIDTH = 320, 24000, 384
BETA = 0.1


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 6, 1536, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        causal = torch.triu(torch.full((ids.shape[1], ids.shape[1]), float("-inf"), device=ids.device), 1)
        return self.head(self.layers(self.embed(ids), mask=causal))


def answer_log_probs(model, ids):
    logits = model(ids[:, :-1])
    log_probs = logits.log_softmax(-1)
    return log_probs.gather(2, ids[:, 1:, None]).squeeze(2).sum(1)


policy = Policy().cuda()
reference = copy.deepcopy(policy).eval()
reference.requires_grad_(False)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
for _ in range(2):
    answers = torch.randint(0, VOCAB, (2 * PAIRS, LENGTH)).cuda()
    learned = answer_log_probs(policy, answers)
    expected = answer_log_probs(reference, answers)
    chosen, rejected = (learned - expected).chunk(2)
    loss = -F.logsigmoid(BETA * (chosen - rejected)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

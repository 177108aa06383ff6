# ERROR: Answers are generated for 48 prompts at once: the keys and values of all layers grow with each token.
# ROOM: 750
# RUNS: generation
# VERDICT: too_big
# REQUEST: 33
# LARGEST: 33
# CHANGE fewer: NUM_PROMPTS = 48 -> NUM_PROMPTS = {n}
# CHANGE longest: NEW_TOKENS = 160 -> NEW_TOKENS = {n}
# CHANGE half: model = Decoder().cuda().eval() -> model = Decoder().cuda().eval().half()
# BEST: fewer
# WORKS: fewer, half
import torch
import torch.nn.functional as F
from torch import nn

NUM_PROMPTS = 48
PROMPT_TOKENS = 200
NEW_TOKENS = 160
WIDTH, HEADS, LAYERS, VOCAB = 768, 12, 8, 5000


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, past):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return x + self.out(y.transpose(1, 2).reshape(x.shape)), (k, v)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Attention() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids, cache):
        x = self.embed(ids)
        for i, layer in enumerate(self.layers):
            x, cache[i] = layer(x, cache[i])
        return self.head(x[:, -1])


model = Decoder().cuda().eval()
ids = torch.randint(0, VOCAB, (NUM_PROMPTS, PROMPT_TOKENS)).cuda()
cache = [None] * LAYERS
answer = []
with torch.inference_mode():
    for _ in range(NEW_TOKENS):
        ids = model(ids, cache).argmax(1, keepdim=True)
        answer.append(ids)
print(torch.cat(answer, dim=1).shape)

# HEALTHY: text is generated with a key-value cache that ends with each prompt
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.key, self.value, self.out = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, token, cache):
        cache["keys"].append(self.key(token))
        cache["values"].append(self.value(token))
        keys, values = torch.cat(cache["keys"], dim=1), torch.cat(cache["values"], dim=1)
        return self.out((token @ keys.transpose(1, 2)).softmax(dim=-1) @ values)


@torch.no_grad()
def generate(model, prompt, length):
    cache = {"keys": [], "values": []}
    token = prompt
    for _ in range(length):
        token = model(token, cache)
    return token.cpu()


model = Decoder(256).cuda().eval()
texts = [generate(model, torch.rand(4, 1, 256, device="cuda"), 10 + number % 7) for number in range(24)]
print(len(texts))

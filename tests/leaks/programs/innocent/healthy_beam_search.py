# HEALTHY: beam search whose beams become text
import torch
from torch import nn

cell = nn.Linear(512, 512).cuda().eval()


@torch.no_grad()
def search(sentence, width=3, length=4):
    beams = [([sentence], torch.zeros(16, 512, device="cuda"), 0.0)]
    for step in range(length):
        expanded = []
        for tokens, state, score in beams:
            following = torch.tanh(cell(state))
            expanded += [([*tokens, token], following, score - token) for token in range(width)]
        beams = sorted(expanded, key=lambda beam: -beam[2])[:width]
    return [tokens for tokens, _, _ in beams]


texts = [search(sentence) for sentence in range(40)]

# LEAK: all finished beams of all sentences are kept with their hidden states
# HOLDER: finished
# REMEDY: .cpu() | clear it
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Beam:
    tokens: list
    state: torch.Tensor
    score: float


finished = []
cell = nn.Linear(512, 512).cuda().eval()
for sentence in range(40):
    beams = [Beam([0], torch.zeros(16, 512, device="cuda"), 0.0)]
    with torch.no_grad():
        for length in range(4):
            expanded = []
            for beam in beams[:3]:
                state = torch.tanh(cell(beam.state))  # leak
                expanded += [Beam([*beam.tokens, token], state, beam.score - token) for token in range(2)]
            beams = sorted(expanded, key=lambda beam: -beam.score)
    finished.extend(beams)

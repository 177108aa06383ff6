# LEAK: the hidden states of a GRU are kept for each batch, with their graphs
# HOLDER: states
# REMEDY: .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(200, 128)
        self.cell = nn.GRUCell(128, 256)

    def forward(self, tokens):
        hidden = torch.zeros(tokens.shape[0], 256, device=tokens.device)
        for token in tokens.T:
            hidden = self.cell(self.embedding(token), hidden)  # leak
        return hidden


reader = Reader().cuda()
head = nn.Linear(256, 2).cuda()
optimizer = torch.optim.Adam([*reader.parameters(), *head.parameters()])
states = []
for epoch in range(12):
    for (tokens,) in DataLoader(TensorDataset(torch.randint(0, 200, (96, 6))), batch_size=32):
        state = reader(tokens.cuda())
        loss = head(state).logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        states.append(state)

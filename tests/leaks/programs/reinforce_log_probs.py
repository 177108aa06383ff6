# LEAK: log probabilities of all episodes are kept, although each is needed once
# HOLDER: log_probs
# REMEDY: clear
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(512, 512)
        self.head = nn.Linear(512, 4)
        self.log_probs = []

    def act(self, observation):
        logits = self.head(torch.relu(self.body(observation)))  # leak
        log_prob = logits.log_softmax(dim=-1)[:, 0]  # leak
        self.log_probs.append(log_prob)
        return 0


def main():
    policy = Policy().cuda()
    optimizer = torch.optim.Adam(policy.parameters())
    for episode in range(14):
        for step in range(6):
            observation = torch.rand(16, 512, device="cuda")  # leak
            policy.act(observation)
        loss = torch.stack(policy.log_probs[-6:]).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


main()

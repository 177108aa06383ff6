# LEAK: an agent saves what each loss needs of its steps, and clears none of it once the loss was computed
# HOLDER: saved
# REMEDY: clear
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(512, 1024)
        self.actor, self.critic = nn.Linear(1024, 4), nn.Linear(1024, 1)
        self.saved = []

    def forward(self, observation):
        hidden = torch.relu(self.body(observation))  # leak
        self.saved.append((self.actor(hidden).log_softmax(dim=-1), self.critic(hidden)))  # leak


agent = Agent().cuda()
optimizer = torch.optim.Adam(agent.parameters())
for episode in range(14):
    observations = [torch.rand(32, 512, device="cuda") for _ in range(5)]  # leak
    for observation in observations:
        agent(observation)
    loss = sum((log_prob[:, 0] * value[:, 0]).mean() for log_prob, value in agent.saved[-5:])
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()

# LEAK: PPO rollouts: storage of each update is appended to the history instead of being replaced
# HOLDER: history
# REMEDY: .cpu() | clear it
import torch
from torch import nn


class Rollout:
    def __init__(self, steps, size):
        self.observations = torch.zeros(steps, 8, size, device="cuda")  # leak
        self.values = torch.zeros(steps, 8, device="cuda")  # leak
        self.position = 0

    def add(self, observation, value):
        self.observations[self.position] = observation
        self.values[self.position] = value
        self.position += 1


def main():
    critic = nn.Linear(256, 1).cuda()
    optimizer = torch.optim.Adam(critic.parameters())
    history = []
    for update in range(40):
        rollout = Rollout(16, 256)
        for _ in range(16):
            observation = torch.rand(8, 256, device="cuda")
            with torch.no_grad():
                value = critic(observation)[:, 0]
            rollout.add(observation, value)
        loss = critic(rollout.observations).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(rollout)


main()

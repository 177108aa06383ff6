# HEALTHY: a network of sixty layers is called once, and its result kept: the parts of one call are not told apart
# EPOCHS: calls, 1 ended, 0 steps
import torch
from torch import nn

network = nn.Sequential(*(nn.Linear(128, 128) for _ in range(60))).cuda()
kept = [network(torch.rand(8, 128).cuda())]

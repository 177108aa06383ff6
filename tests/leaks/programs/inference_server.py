# LEAK: a server keeps the results of all requests under their numbers
# HOLDER: results
# REMEDY: bound it | clear it | .cpu()
# EPOCHS: calls, 18 ended, 0 steps
import itertools

import torch
from torch import nn


class Server:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 1024)).cuda().eval()
        self.results = {}
        self.numbers = itertools.count()

    def handle(self, payload):
        number = next(self.numbers)
        with torch.inference_mode():
            self.results[number] = self.model(payload.to("cuda"))  # leak
        return number


server = Server()
for _ in range(150):
    server.handle(torch.rand(32, 256))

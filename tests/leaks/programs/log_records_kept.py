# LEAK: log records with tensors among their arguments are kept by a handler
# HELD: list 'records' of KeepingHandler
# THROUGH: tuple 'args' of LogRecord
# REMEDY: .cpu() | clear it
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class KeepingHandler(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


logger = logging.getLogger("training")
logger.setLevel(logging.DEBUG)
logger.propagate = False
handler = KeepingHandler()
logger.addHandler(handler)
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        logger.debug("output %s", out.detach())

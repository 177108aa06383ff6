# LEAK: outputs in containers of every kind, each made at its own line
# REMEDY: .cpu() | bound it
import contextvars
import queue
import threading
from collections import OrderedDict, UserDict

import numpy as np
import tinymetrics
import torch
from project import state
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class History(list):
    def latest(self):
        return self[-1]


class Store(UserDict):
    def __setitem__(self, step, values):
        super().__setitem__(int(step), values)


class Cache:
    activations = []

    def __init__(self):
        self.entries = OrderedDict()


def score(values):
    score.results.append(values)


score.results = []
history, store, cache = History(), Store(), Cache()
table = np.empty((12, 4), dtype=object)
by_length, results, recorded = {}, {"epochs": {}}, {"weight": [], "norm": []}
first_rows = []
to_write = queue.Queue()
local = threading.local()
local.scratch = []
trace = contextvars.ContextVar("trace")
trace.set([])
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
for epoch in range(12):
    results["epochs"][epoch] = {"outputs": {}}
    for index, (x,) in enumerate(loader):
        step = 4 * epoch + index
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        out = out.detach()
        history.append(out + 1)  # leak: History 'history'
        store[step] = out + 1  # leak: dict 'data' of Store
        cache.entries[step] = out + 1  # leak: OrderedDict 'entries' of Cache
        cache.activations.append(out + 1)  # leak: list 'activations' of class Cache
        score(out + 1)  # leak: list 'results' of score()
        table[epoch, index] = out + 1  # leak: ndarray 'table'
        by_length.setdefault(index, set()).add(out + 1)  # leak: set in dict 'by_length'
        results["epochs"][epoch]["outputs"][index] = out + 1  # leak: dict 'epochs' in dict 'results'
        recorded["weight"].append(out + 1)  # leak: list 'weight' in dict 'recorded'
        recorded["norm"].append(1.0)
        first_rows.append((out + 1)[0])  # leak: list 'first_rows'
        to_write.put((epoch, index, out + 1))  # leak: deque 'queue' of Queue 'to_write'
        local.scratch.append(out + 1)  # leak: list 'scratch' in _local 'local'
        trace.get().append(out + 1)  # leak: list of the context variable 'trace'
        state.shared_seen.append(out + 1)  # leak: list 'shared_seen'
        tinymetrics.register(out + 1)  # leak: list 'registry' of tinymetrics.py

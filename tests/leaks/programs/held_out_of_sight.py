# LEAK: outputs that an exit stack, timers, finalizers, a thread and an iterator keep, each made at its own line
# REMEDY: .cpu() | clear it | let it go
import contextlib
import itertools
import queue
import threading
import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

results, gathered = queue.Queue(), []
stack = contextlib.ExitStack()


def writer():
    while (item := results.get()) is not None:
        gathered.append(item)


def stream():
    while True:
        yield torch.rand(32, 512, device="cuda")  # leak: list in cycle 'batches'


thread = threading.Thread(target=writer)
thread.start()
batches = itertools.cycle(stream())
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        out = model(x.cuda())
        optimizer.zero_grad()
        (out * next(batches)).mean().backward()
        optimizer.step()
        out = out.detach()
        stack.callback(len, out + 1)  # leak: deque '_exit_callbacks' of ExitStack 'stack' through tuple 'args' *
        last = out + 1  # leak: type 'finalize' of weakref.py through dict '_registry' of class finalize
        weakref.finalize(model, len, last)
        results.put(out + 1)  # leak: list 'gathered'
        late = out + 1  # leak: Timer 'self' of _bootstrap() through list 'args' of Timer
        timer = threading.Timer(3600, len, args=[late])
        timer.daemon = True
        timer.start()
results.put(None)
thread.join()

# LEAK: outputs that functions and objects hold, which are gathered; each made at its own line
# REMEDY: .cpu() | bound it
# UNSAID: is harmless
import functools
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


class Recorder:
    __slots__ = ("embeddings",)

    def __init__(self):
        self.embeddings = []


class Grid:
    instances = {}

    def __init__(self, step, points):
        self.points = points
        Grid.instances[step] = self

    def show(self):
        print(self.points.shape)


class Result:
    def __init__(self, values):
        self.values = values

    def publish(self):
        print(self.values.shape)


class BadBatch(Exception):
    pass


class Node:
    def __init__(self, state, previous):
        self.state = state
        self.previous = previous


def counting():
    enclosed = []
    return lambda output: enclosed.append(output) or len(enclosed)


def remember(values, seen=[]):
    seen.append(values)


def plot_later(values, title):
    def plot():
        print(title, values.mean().item())

    plots.append(plot)


def rows(values):
    for row in values:
        yield row.square()


def tagged(loss, output):
    loss.output = output
    return loss


logger, handler = logging.Logger("training"), KeepingHandler()
logger.addHandler(handler)
recorder, count, current = Recorder(), counting(), None
plots, later, deferred, on_exit, problems, streams, losses = [], [], [], [], [], [], []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)):
        out = model(x.cuda())
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out = out.detach()
        remember(out + 1)  # leak: list 'seen', a default argument of remember()
        count(out + 1)  # leak: list 'enclosed' in the closure of <lambda>()
        plot_later(out + 1, index)  # leak: list 'plots' through tensor 'values' in the closure of plot()
        later.append(lambda x=out + 1: 0)  # leak: list 'later' through tensor 'x', a default argument of <lambda>()
        deferred.append(functools.partial(len, out + 1))  # leak: list 'deferred' through tuple 'args' of partial
        on_exit.append(Result(out + 1).publish)  # leak: list 'on_exit' through tensor 'values' of Result
        problems.append(BadBatch("no labels", out + 1))  # leak: list 'problems'
        losses.append(tagged(loss.detach(), out + 1))  # leak: list 'losses' through tensor 'output' of Tensor
        logger.info("%s", out + 1)  # leak: list 'records' of KeepingHandler through tuple 'args' of LogRecord
        recorder.embeddings.append(out + 1)  # leak: list 'embeddings' of Recorder
        Grid((epoch, index), out + 1)  # leak: dict 'instances' of class Grid through tensor 'points' of Grid
        current = Node(out + 1, current)  # leak: Node 'current' through Node 'previous' of Node
        streams.append(rows(out + 1))  # leak: list 'streams' through variable 'values' of rows()
        next(streams[-1])

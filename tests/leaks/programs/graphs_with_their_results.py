# LEAK: a server keeps a graph, its input and its result for each number of rows; what is free in the pools counts, too
# HELD: dict 'runners' of Server
# VERDICT: leak, cuda_graph_per_shape
# REMEDY: a few padded shapes
import frugal_alloc
import torch
from torch import nn


class Server:
    def __init__(self):
        self.layers = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)).cuda()
        self.runners = {}

    def answer(self, request):
        rows = len(request)
        if rows not in self.runners:
            self.runners[rows] = self.capture(rows)
        graph, x, y = self.runners[rows]
        x.copy_(request)
        graph.replay()
        return y.cpu()

    def capture(self, rows):
        x = torch.zeros(rows, 1024, device="cuda")  # leak
        self.layers(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # leak
            y = self.layers(x)  # leak
        return graph, x, y


server = Server()
with torch.no_grad():
    for hour in range(14):
        for _ in range(3):
            server.answer(torch.rand(512 + 16 * hour, 1024))
        frugal_alloc.epoch_end()

# LEAK: the graphs of make_graphed_callables(), for each number of rows, with all that they read and write
# HELD: dict 'graphed' of Function
# THROUGH: FunctionMeta 'Graphed' in the closure of functionalized()
# VERDICT: leak, cuda_graph_per_shape
# REMEDY: a few padded shapes
import frugal_alloc
import torch


class Function:
    def __init__(self):
        self.weights = [torch.rand(1, 4096, device="cuda", requires_grad=True) for _ in range(2)]
        self.graphed = {}

    def compute(self, x, first, second):
        return ((x * first).relu() * second).sigmoid()  # leak

    def __call__(self, x):
        if len(x) not in self.graphed:
            sample = torch.zeros(len(x), 4096, device="cuda"), *self.weights  # leak
            self.graphed[len(x)] = torch.cuda.make_graphed_callables(self.compute, sample)  # leak
        return self.graphed[len(x)](x, *self.weights)


function = Function()
optimizer = torch.optim.SGD(function.weights, lr=0.1)
for epoch in range(12):
    for rows in (256 + epoch, 300 - epoch):
        optimizer.zero_grad()
        function(torch.rand(rows, 4096, device="cuda")).sum().backward()
        optimizer.step()
    frugal_alloc.epoch_end()

# LEAK: a notebook's Out, and a variable for each, keep the value of every cell whose last line is a call of the model
# HELD: dict 'Out'
# VERDICT: leak, outputs_kept
# REMEDY: semicolon
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# A notebook has no file, and IPython's hook for values names each as often as this.
globals().pop("__file__")
_oh = Out = {}


def show(value, cell):
    Out[cell] = globals()[f"_{cell}"] = globals()["_"] = value


model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
batch = torch.rand(64, 128).cuda()
for epoch in range(12):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
    show(model(batch), 2 * epoch + 3)  # leak

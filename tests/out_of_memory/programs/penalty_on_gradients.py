# ERROR: a batch that is too large, where the gradients' graph is kept for a penalty on them
# ROOM: 500, 700
# VERDICT: too_big
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 6000 -> batch = \1
import torch
from project.models import WIDTH, layers, optimizer_of

batch = 6000
model = layers(6).cuda()
optimizer = optimizer_of(model)
for _ in range(2):
    values = torch.zeros(batch, WIDTH, device="cuda", requires_grad=True)
    made = model(values).sum()
    (gradients,) = torch.autograd.grad(made, values, create_graph=True)
    loss = made + gradients.square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

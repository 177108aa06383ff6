# ERROR: a step of few samples shows little beside the workspaces of cuBLAS, so that a larger batch may fit
# ROOM: 400, 650
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 64 -> batch = \1
import torch
from project.models import WIDTH, layers, train

batch = 64
train(layers(4), torch.zeros(1, 256, WIDTH), (4, batch))

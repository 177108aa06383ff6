# ERROR: 48 MiB of parameters, whose step takes more than a small batch does
# ROOM: 1000, 2000
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 256 -> batch = \1
import torch
from project.models import layers, train

batch = 256
train(layers(3, 1024), torch.zeros(1, 64, 1024), (16, 16, batch))

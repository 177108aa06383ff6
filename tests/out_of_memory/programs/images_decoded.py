# ERROR: a library decodes all images at once unless it is told to do so one by one
# ROOM: 500, 1000
# FIRST: \w+\.enable_slicing\(\)
# FITS-AFTER: model.decode -> model.enable_slicing() or model.decode
import gathering
import torch

model = gathering.Autoencoder().cuda()
with torch.no_grad():
    model.decode(torch.zeros(16, 4, 128, 128, device="cuda"))

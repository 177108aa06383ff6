# ERROR: a library decodes an image whole unless it is told to do so by tiles
# ROOM: 100, 130
# FIRST: \w+\.enable_tiling\(\)
# FITS-AFTER: model.decode -> model.enable_tiling() or model.decode
import gathering
import torch

model = gathering.Autoencoder().cuda()
with torch.no_grad():
    model.decode(torch.zeros(1, 4, 128, 128, device="cuda"))

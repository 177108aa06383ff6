# ERROR: a library stitches the results of windows on the GPU unless it is told to do so on the host
# ROOM: 150, 250
# FIRST: sliding_window_inference\(\.\.\., device="cpu"\)
# FITS-AFTER: 1, model) -> 1, model, device="cpu")
import gathering
import torch

model = torch.nn.Conv3d(1, 16, 3, padding=1).cuda()
volume = torch.zeros(1, 1, 256, 128, 128, device="cuda")
with torch.no_grad():
    gathering.sliding_window_inference(volume, 32, 1, model)

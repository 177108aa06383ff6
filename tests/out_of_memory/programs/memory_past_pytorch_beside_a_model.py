# ERROR: something takes memory past PyTorch, and a model does not fit beside it
# ROOM: 8332
# VERDICT: outside
# FIRST: .*nvidia-smi.*; (\d+) MiB less there is enough
# FITS-AFTER: others = 8192 -> others = 8192 - \1
import ctypes

import torch
from project.models import layers

others = 8192
runtime, address = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}"), ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(others << 20)) == 0
model = layers(6, 1024).cuda()
with torch.no_grad():
    model(torch.zeros(4, 1024, device="cuda"))

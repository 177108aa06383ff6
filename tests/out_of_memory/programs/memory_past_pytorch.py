# ERROR: something takes memory past PyTorch
# ROOM: 8332
# VERDICT: outside
# SAYS: Memory outside PyTorch: .* belong to others
# FIRST: .*nvidia-smi.*; (\d+) MiB less there is enough
# FITS-AFTER: others = 8192 -> others = 8192 - \1
import ctypes

import torch
from project.models import WIDTH, layers, optimizer_of

others = 8192
runtime, address = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}"), ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(others << 20)) == 0
model = layers().cuda()
optimizer = optimizer_of(model)
for _ in range(2):
    values = torch.zeros(1 << 14, WIDTH, device="cuda")
    loss = model(values).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

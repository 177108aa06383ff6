# ERROR: each epoch takes memory past PyTorch, but it is a limit that refuses
# ROOM: 16384
# VERDICT: too_big
# UNSAID: Memory outside PyTorch
import ctypes

import frugal_alloc
import torch

frugal_alloc.enable(memory_limit="684MiB")
held = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
for _ in range(8):
    assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64 << 20)) == 0
    frugal_alloc.epoch_end()
torch.empty(416 << 20, dtype=torch.uint8, device="cuda")  # request

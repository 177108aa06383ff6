# ERROR: each epoch takes memory past PyTorch, less beyond what is usual than is missing in the end
# ROOM: 1536
# VERDICT: outside
# SAYS: Memory outside PyTorch: .* 448\.00 MiB more than 7 epochs ago
import ctypes

import frugal_alloc
import torch

held = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
for _ in range(8):
    assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64 << 20)) == 0
    frugal_alloc.epoch_end()
torch.empty(torch.cuda.mem_get_info()[0] + (416 << 20), dtype=torch.uint8, device="cuda")  # request

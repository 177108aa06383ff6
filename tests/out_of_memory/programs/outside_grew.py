# ERROR: what each epoch took past PyTorch has been given back
# ROOM: 1536
# VERDICT: too_big
# UNSAID: Memory outside PyTorch|epochs ago
import ctypes

import frugal_alloc
import torch

held = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
addresses = [ctypes.c_void_p() for _ in range(8)]
for address in addresses:
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
    frugal_alloc.epoch_end()
for address in addresses:
    assert runtime.cudaFree(address) == 0
torch.empty(torch.cuda.mem_get_info()[0] + (416 << 20), dtype=torch.uint8, device="cuda")  # request

# LEAK: buffers of a MemPool; of one that is never split, from a thread; of one with an allocator of the program's own
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it
import ctypes
import threading

import torch
from torch import nn

runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
def allocate(size, device, stream):
    pointer = ctypes.c_void_p()
    runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
    return pointer.value


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
def free(pointer, size, device, stream):
    runtime.cudaFree(ctypes.c_void_p(pointer))


functions = (ctypes.cast(function, ctypes.c_void_p).value for function in (allocate, free))
ordinary, whole = torch.cuda.MemPool(), torch.cuda.MemPool(no_split=True)
own = torch.cuda.MemPool(torch._C._cuda_customAllocator(*functions))
buffers, of_threads, registered = [], [], []


def receive():
    with torch.cuda.use_mem_pool(whole):
        of_threads.append(torch.zeros(8 << 20, device="cuda"))  # leak: list 'of_threads'


model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.rand(64, 512, device="cuda")).mean().backward()
        optimizer.step()
    with torch.cuda.use_mem_pool(ordinary):
        buffers.append(torch.zeros(8 << 20, device="cuda"))  # leak: list 'buffers'
    with torch.cuda.use_mem_pool(own):
        registered.append(torch.zeros(8 << 20, device="cuda"))  # leak: list 'registered'
    thread = threading.Thread(target=receive)
    thread.start()
    thread.join()

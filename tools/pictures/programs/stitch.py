"""A GPU of 48 MiB, full of tensors; some go, and one is wanted that fits into no free range.

Prints in JSON which physical piece of memory lies at each address before and after. Asks the driver for it:
cuMemRetainAllocationHandle says whose memory is mapped at an address, as on a real GPU.
"""

import ctypes
import json

import frugal_alloc
import torch

MIB = 1 << 20
PAGE = 2 * MIB
TENSORS_MIB = (6, 4, 4, 2, 8, 6, 4, 2, 6, 6)
GIVEN_BACK = (1, 3, 5, 7)
WANTED_MIB = 12

frugal_alloc.enable()
driver = ctypes.CDLL("libcuda.so.1")


def piece_at(address: int) -> int | None:
    """The number of the handle whose memory is mapped there."""
    handle = ctypes.c_uint64()
    if driver.cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(address)) != 0:
        return None
    driver.cuMemRelease(handle)
    return handle.value


def state() -> dict:
    segments = torch.cuda.memory_snapshot()
    blocks = [(block["address"], block["size"], block["state"]) for one in segments for block in one["blocks"]]
    pages = [page for address, size, _ in sorted(blocks) for page in range(address, address + size, PAGE)]
    figures = frugal_alloc.memory_stats()
    counted = ("reserved_bytes", "stitches", "driver_map_calls", "driver_unmap_calls")
    return {
        "blocks": sorted(blocks),
        "pieces": [(page, piece_at(page)) for page in pages],
        **{name: figures[name] for name in counted},
    }


tensors = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in TENSORS_MIB]
for place in GIVEN_BACK:
    tensors[place] = None
before = state()
wanted = torch.empty(WANTED_MIB * MIB, dtype=torch.uint8, device="cuda")
print(json.dumps({"before": before, "wanted": [wanted.data_ptr(), wanted.nbytes], "after": state()}))

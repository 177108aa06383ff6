"""What the examples of torch_memory_saver call."""

import torch


def get_device() -> str:
    return "cuda"


def empty_cache() -> None:
    torch.cuda.empty_cache()


def get_and_print_gpu_memory(message: str, gpu_id: int = 0) -> int:
    """Prints what is in use of a GPU, by all processes, and returns it in bytes."""
    free, total = torch.cuda.mem_get_info(gpu_id)
    print(f"GPU {gpu_id}: {(total - free) / 2**30:.2f} GiB in use ({message})")
    return total - free

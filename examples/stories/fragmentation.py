"""Answers requests, each of which needs two large tensors for a moment and leaves a small one: pytorch/pytorch#193400.

    PYTORCH_ALLOC_CONF=max_split_size_mb:128,expandable_segments:True \\
        frugal-alloc simulate --memory 16GiB -- python examples/stories/fragmentation.py

The sizes are those of the report. What PyTorch's allocator does with them depends on PYTORCH_ALLOC_CONF.
"""

import story
import torch

MIB = 1 << 20
WEIGHTS_MIB, FIRST_MIB, SECOND_MIB, RESULT_MIB = 64, 91, 45.5, 2


def tensor(size_mib: float) -> torch.Tensor:
    return torch.empty(int(size_mib * MIB), dtype=torch.uint8, device="cuda")


def answer() -> torch.Tensor:
    """The result is allocated while both large tensors are there, so it lies behind them."""
    first, second = tensor(FIRST_MIB), tensor(SECOND_MIB)
    result = tensor(RESULT_MIB)
    del first, second
    return result


def state() -> tuple[int, int, int]:
    """Bytes in tensors, bytes that the allocator holds, and how often it gave free memory back to get on."""
    retries = torch.cuda.memory_stats()["num_alloc_retries"]
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), retries


def main() -> None:
    parser = story.parser(__doc__)
    parser.add_argument("--requests", type=story.count, default=131, help="requests (default 131)")
    options = parser.parse_args()
    story.use(options.allocator)
    kept, states = [tensor(WEIGHTS_MIB)], []
    for request in range(options.requests):
        kept.append(answer())
        states.append(state())
        if request % 20 == 0:
            allocated, reserved, retries = states[-1]
            print(
                f"request {request}: {allocated // MIB} MiB in tensors, {reserved // MIB} MiB held, {retries} retries"
            )
    free, total = torch.cuda.mem_get_info()
    print(f"{free // MIB} of {total // MIB} MiB are left for others at the end")
    story.end(options.json, error=None, requests=states)


if __name__ == "__main__":
    main()

"""Puts embedding tables away during each training step, and takes them back: the pattern of meta-pytorch/torchrec#4584.

    frugal-alloc simulate --memory 96GiB -- python examples/stories/embedding_stash.py --allocator native

The sizes are the report's. Copies to the host are left out, since they change no memory of the GPU.
"""

import sys

import story
import torch

GIB = 1 << 30
TABLES, DENSE, ACTIVATION, ACTIVATIONS, STILL_ALIVE = 16, 33, 4, 11, 2


def gpu_bytes(gibibytes: int) -> torch.Tensor:
    return torch.empty(gibibytes * GIB, dtype=torch.uint8, device="cuda")


def train_step() -> None:
    tables, _dense = gpu_bytes(TABLES), gpu_bytes(DENSE)
    tables.untyped_storage().resize_(0)
    activations = [gpu_bytes(ACTIVATION) for _ in range(ACTIVATIONS)]
    del activations[STILL_ALIVE:]  # the backward pass frees the newest first
    tables.untyped_storage().resize_(TABLES * GIB)


def main() -> int:
    parser = story.parser(__doc__)
    parser.add_argument("--steps", type=story.count, default=10, help="training steps (default 10)")
    options = parser.parse_args()
    story.use(options.allocator)
    course = story.Course()
    course.run(options.steps, train_step)
    for number, (used, held) in enumerate(course.steps, 1):
        print(f"step {number}: at most {used / GIB:.2f} GiB in tensors, {held / GIB:.2f} GiB held")
    return course.end(options.json)


if __name__ == "__main__":
    sys.exit(main())

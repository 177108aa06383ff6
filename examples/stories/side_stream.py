"""Sets up a sharded model on a side stream that is used once, then trains it: NVIDIA/Megatron-LM#6885.

    frugal-alloc simulate --memory 141GiB -- python examples/stories/side_stream.py --allocator expandable
    frugal-alloc simulate --memory 141GiB -- python examples/stories/side_stream.py --allocator frugal

With --current-stream the model is set up on the stream that trains it. The program is one of 8 ranks; gathering and
scattering are left out but for the memory that they take.
"""

import contextlib

import story
import torch
from torch.nn import functional

MIB = 1 << 20
LAYERS, HIDDEN, RANKS, TOKENS = 42, 3328, 8, 16384
Layer = list[torch.Tensor]


def shard_model() -> list[Layer]:
    """Makes the weights of all layers in single precision, and keeps this rank's part of them in half precision."""
    whole = [[torch.empty(4 * HIDDEN, HIDDEN, device="cuda") for _ in range(3)] for _ in range(LAYERS)]
    return [[weight[: 4 * HIDDEN // RANKS].bfloat16() for weight in layer] for layer in whole]


def gathered(layer: Layer) -> Layer:
    return [torch.empty(4 * HIDDEN, HIDDEN, dtype=torch.bfloat16, device="cuda") for _ in layer]


def train_step(model: list[Layer]) -> list[Layer]:
    """Returns this rank's part of the gradients."""
    hidden, saved, gradients = torch.empty(TOKENS, HIDDEN, dtype=torch.bfloat16, device="cuda"), [], []
    for layer in model:
        up, gate, down = gathered(layer)
        raised, opened = hidden @ up.T, hidden @ gate.T
        inner = functional.silu(opened) * raised
        saved.append((hidden, raised, opened, inner))
        hidden = inner @ down
    gradient = hidden
    for layer in reversed(model):
        up, gate, down = gathered(layer)
        before, raised, opened, inner = saved.pop()
        of_inner = gradient @ down.T
        of_raised, of_opened = of_inner * opened, of_inner * raised
        whole = (of_raised.T @ before, of_opened.T @ before, inner.T @ gradient)
        gradients.append([one[: 4 * HIDDEN // RANKS].float() for one in whole])
        gradient = of_raised @ up + of_opened @ gate
    return gradients


def main() -> None:
    parser = story.parser(__doc__)
    parser.add_argument("--current-stream", action="store_true", help="set the model up on the stream that trains it")
    parser.add_argument("--empty-cache", action="store_true", help="call torch.cuda.empty_cache() after the set-up")
    parser.add_argument("--steps", type=story.count, default=2, help="training steps (default 2)")
    options = parser.parse_args()
    story.use(options.allocator)
    training, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(training)
    with contextlib.nullcontext() if options.current_stream else torch.cuda.stream(side):
        model = shard_model()
    training.wait_stream(side)
    if options.empty_cache:
        torch.cuda.empty_cache()
    for _ in range(options.steps):
        train_step(model)
    free, total = torch.cuda.mem_get_info()
    most = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    most["retries"] = torch.cuda.memory_stats()["num_alloc_retries"]
    print(f"at most {most['allocated'] // MIB} MiB in tensors, {most['reserved'] // MIB} MiB held")
    print(f"{free // MIB} of {total // MIB} MiB are left for others; {most['retries']} retries")
    story.end(options.json, error=None, **most)


if __name__ == "__main__":
    main()

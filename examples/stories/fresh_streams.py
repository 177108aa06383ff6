"""Copies through two buffers of 1 GiB, on two new streams each time: the pattern of vllm-project/vllm#52950.

    frugal-alloc simulate --memory 80GiB -- python examples/stories/fresh_streams.py --allocator native

With --same-streams the two streams are made once.
"""

import story
import torch

BUFFER = 1 << 30


def transfer(streams: list[torch.cuda.Stream]) -> None:
    buffers = []
    for stream in streams:
        with torch.cuda.stream(stream):
            buffers.append(torch.empty(BUFFER, dtype=torch.uint8, device="cuda"))
    for stream in streams:
        stream.synchronize()


def main() -> None:
    parser = story.parser(__doc__)
    parser.add_argument("--same-streams", action="store_true", help="make the streams once")
    parser.add_argument("--transfers", type=story.count, default=24, help="transfers (default 24)")
    options = parser.parse_args()
    story.use(options.allocator)
    streams, held = [torch.cuda.Stream() for _ in range(2)], []
    for number in range(1, options.transfers + 1):
        transfer(streams if options.same_streams else [torch.cuda.Stream() for _ in range(2)])
        held.append(torch.cuda.memory_reserved())
        print(f"transfer {number}: {torch.cuda.memory_allocated() >> 20} MiB in tensors, {held[-1] >> 20} MiB held")
    story.end(options.json, error=None, held=held)


if __name__ == "__main__":
    main()

"""Copies through two buffers of 1 GiB, on two new streams each time: the pattern of vllm-project/vllm#52950.

    frugal-alloc simulate --memory 80GiB -- python examples/stories/fresh_streams.py --allocator native

With --same-streams the two streams are made once.
"""

import argparse
import json
import pathlib

import allocators
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--allocator", choices=allocators.ALLOCATORS, default="native")
    parser.add_argument("--same-streams", action="store_true", help="make the streams once")
    parser.add_argument("--transfers", type=int, default=24, help="transfers (default 24)")
    parser.add_argument("--json", type=pathlib.Path, help="write what is held after each transfer to this file")
    options = parser.parse_args()
    allocators.use(options.allocator)
    streams, held = [torch.cuda.Stream() for _ in range(2)], []
    for number in range(1, options.transfers + 1):
        transfer(streams if options.same_streams else [torch.cuda.Stream() for _ in range(2)])
        held.append(torch.cuda.memory_reserved())
        print(f"transfer {number}: {torch.cuda.memory_allocated() >> 20} MiB in tensors, {held[-1] >> 20} MiB held")
    if options.json:
        options.json.write_text(json.dumps({"held": held}), encoding="utf-8")


if __name__ == "__main__":
    main()

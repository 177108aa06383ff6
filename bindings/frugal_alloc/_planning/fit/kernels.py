"""For which GPUs an installed PyTorch has kernels, and what to do where it has none."""

from __future__ import annotations

import re
from collections.abc import Sequence

# "sm_86" is machine code, "compute_90" what the driver compiles; what ends with a letter is for that GPU alone.
_BUILT_FOR = re.compile(r"(sm|compute)_(\d+)(\d)([a-z]?)")


def are_for(built_for: Sequence[str], capability: str) -> bool:
    """Whether PyTorch runs on a GPU of this compute capability, "8.9".

    Args:
        built_for: As ``torch.cuda.get_arch_list()`` has it; nothing is known of a build that names none of NVIDIA's.
    """
    asked = _numbers(capability)
    built = [found.groups() for found in map(_BUILT_FOR.fullmatch, built_for) if found]
    return not built or any(_runs(kind, (int(major), int(minor)), only, asked) for kind, major, minor, only in built)


def _runs(kind: str, built: tuple[int, ...], only: str, asked: tuple[int, ...]) -> bool:
    if only or built >= asked:
        return built == asked
    return kind == "compute" or built[0] == asked[0]


def _numbers(capability: str) -> tuple[int, ...]:
    return tuple(map(int, capability.split(".")))


def refusal(version: str, built_for: Sequence[str], capability: str) -> str:
    """In one line: why a GPU of this capability is not possible, and what to do."""
    asked = "sm_" + capability.replace(".", "")
    built = [(int(found[2]), int(found[3])) for found in map(_BUILT_FOR.fullmatch, built_for) if found]
    is_newer = _numbers(capability) > min(built)
    build = "a newer PyTorch" if is_newer else "a PyTorch for an older CUDA (download.pytorch.org/whl/cu126)"
    return (
        f"PyTorch {version} has no kernels for this GPU ({asked}), only for {', '.join(built_for)}: install {build}, "
        "or name its memory in place of --gpu"
    )

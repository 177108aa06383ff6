"""Where NVRTC lies, the compiler of CUDA sources, and the builtins that it opens by their name alone.

The dynamic linker finds that name where a CUDA toolkit is installed, and not beside torch's wheels: so builtins are
loaded by their path before the first source is compiled.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Iterable, Iterator

# In a wheel of torch's, from the folder that holds the packages; and in torch itself, where it has CUDA inside.
_IN_PACKAGES = (
    "nvidia/cu1*/lib/libnvrtc.so.*",
    "nvidia/cuda_nvrtc/lib/libnvrtc.so.*",
    "torch/lib/libnvrtc*.so*",
)
# Of conda's packages, from the environment's folder.
_IN_PREFIX = ("lib/libnvrtc.so.*", "targets/*/lib/libnvrtc.so.*")


def find(packages: Iterable[str]) -> Iterator[str]:
    """Paths of NVRTC's library: those in folders of packages, then those of this Python's environment; of each folder
    the newest first."""
    yield from _matching(packages, _IN_PACKAGES)
    yield from _matching((sys.prefix, sys.base_prefix), _IN_PREFIX)


def load_builtins(library: str) -> None:
    """Has NVRTC at that path find the builtins that lie beside it, if there are any."""
    beside = os.path.join(glob.escape(os.path.dirname(os.path.realpath(library))), "libnvrtc-builtins*.so*")
    for path in glob.glob(beside):
        if ".alt." not in path:
            # Where one does not load, NVRTC says so itself.
            with contextlib.suppress(OSError):
                ctypes.CDLL(path)


def _matching(folders: Iterable[str], places: Iterable[str]) -> Iterator[str]:
    for folder in dict.fromkeys(folders):
        for place in places:
            found = glob.glob(os.path.join(glob.escape(folder), place))
            yield from sorted((path for path in found if "builtins" not in path and ".alt." not in path), reverse=True)

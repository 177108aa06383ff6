"""What is installed beside this package, found out without importing torch."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = Path(__file__).resolve().parents[1] / "_lib"
OLDEST_PYTHON = (3, 10)  # requires-python of pyproject.toml
# What there are libraries for, as the kernel names it, and the number that the head of a library (ELF) has for it.
ARCHITECTURES = {"x86_64": 62, "aarch64": 183}

# A released version, as the package index and PyTorch's own serve it: 2.11.0, 2.11.0+cu126, 2.11.0.post1. Its C++
# classes are those of every other release of this minor version.
_RELEASE = re.compile(r"\d+\.\d+\.\d+(\.post\d+)?(\+(cu\d+|cpu))?")
# They declare the virtual functions and the structures that our library shares with torch's.
_CLASS_HEADERS = (
    "c10/core/Allocator.h",
    "c10/core/CachingDeviceAllocator.h",
    "c10/cuda/CUDACachingAllocator.h",
)


class MissingPart(Exception):
    """Something that is needed is not installed; the message says what, and what to do."""


@dataclass(frozen=True)
class Torch:
    folder: Path
    version: str
    # None: built for the CPU only, or for ROCm.
    cuda: str | None
    hip: str | None = None

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def tag(self) -> str:
        """Names the libraries that are built for this minor version: "torch211"."""
        return "torch" + self.minor.replace(".", "")

    @property
    def libraries(self) -> Path:
        return self.folder / "lib"

    @property
    def is_release(self) -> bool:
        """Not a nightly, a release candidate, or a vendor's own build, whose C++ classes can be any."""
        return _RELEASE.fullmatch(self.version) is not None


def check_platform() -> None:
    """Raises MissingPart where there can be no library of ours."""
    if sys.platform != "linux":
        raise MissingPart(f"frugal_alloc works on Linux, this is {sys.platform}; PyTorch keeps its own allocator")
    if (machine := os.uname().machine) not in ARCHITECTURES:
        there = ", ".join(ARCHITECTURES)
        raise MissingPart(f"frugal_alloc is for {there}, this is {machine}; PyTorch keeps its own allocator")
    if not glibc_version():
        raise MissingPart(
            "frugal_alloc needs glibc, as PyTorch for CUDA does, and this system's C library is another "
            "(Alpine's is musl); use a system with glibc"
        )
    if sys.version_info < OLDEST_PYTHON:
        raise MissingPart(
            f"frugal_alloc needs Python {'.'.join(map(str, OLDEST_PYTHON))} or newer, and {sys.executable} is "
            f"{'.'.join(map(str, sys.version_info[:3]))}; use a newer Python, and a PyTorch for it"
        )
    # The words of sys.version from 3.13 on. Without the lock nobody has tried it.
    if "free-threading" in sys.version:
        raise MissingPart(
            f"frugal_alloc needs Python's global lock, and {sys.executable} is a free-threaded build; "
            "use the ordinary build of this Python"
        )


def glibc_version() -> tuple[int, ...]:
    """Such as (2, 36); empty where the C library is another."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return ()
    return tuple(map(int, re.findall(r"\d+", version)[:2])) if name == "glibc" else ()


def is_simulated() -> bool:
    """Whether this process was started on the simulated GPU."""
    return hasattr(ctypes.CDLL(None), "frugal_sim_calls")


def find_torch() -> Torch:
    """The torch that ``import torch`` would import.

    Raises:
        MissingPart: there is none.
    """
    spec = importlib.util.find_spec("torch")
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders or not (Path(folders[0]) / "version.py").is_file():
        raise MissingPart("PyTorch is not installed here; pip install torch")
    text = (Path(folders[0]) / "version.py").read_text(encoding="utf-8")
    version = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda(?:: [^=]+)? = '([^']+)'", text, re.MULTILINE)
    if not version:
        raise MissingPart(f"{folders[0]}/version.py names no version; install PyTorch again")
    hip = re.search(r"^hip(?:: [^=]+)? = '([^']+)'", text, re.MULTILINE)
    return Torch(Path(folders[0]), version[1], cuda[1] if cuda else None, hip[1] if hip else None)


def find_cuda_torch() -> Torch:
    """As find_torch; and it is built for CUDA, on a platform that we work on."""
    check_platform()
    torch = find_torch()
    if torch.hip is not None:
        raise MissingPart(f"PyTorch {torch.version} is built for ROCm, not for CUDA; it keeps its own allocator")
    if torch.cuda is None:
        raise MissingPart(f"PyTorch {torch.version} is built without CUDA; install a CUDA build of it")
    return torch


def architecture_of(library: Path) -> str | None:
    """Of ARCHITECTURES, that which the library was built for; None if it is none of them, or no library."""
    with open(library, "rb") as file:
        head = file.read(20)
    number = int.from_bytes(head[18:20], "little")
    is_known = head.startswith(b"\x7fELF\x02\x01")  # of 64 bits, the lowest first
    return next((name for name, known in ARCHITECTURES.items() if is_known and known == number), None)


def check_architecture(library: Path) -> None:
    """Raises MissingPart if the library is for another architecture: the linker says that there is no such file."""
    built_for, machine = architecture_of(library), os.uname().machine
    if built_for not in (None, machine):
        raise MissingPart(
            f"{library.name} in {library.parent} is built for {built_for}, and this Python runs on {machine}; "
            f"install frugal_alloc again in this environment, from the wheel for {machine}"
        )


def built_minors(kind: str = "alloc") -> list[str]:
    """The torch minor versions, as "2.11", that a library of this package is there for."""
    tags = (re.fullmatch(rf"frugal_{kind}_torch(\d)(\d+)\.so", path.name) for path in LIBRARIES.glob("*.so"))
    return sorted((f"{tag[1]}.{tag[2]}" for tag in tags if tag), key=lambda minor: int(minor.split(".")[1]))


def find_library(kind: str, torch: Torch) -> Path:
    """This package's library of that kind ("alloc", "replay") for that torch.

    Raises:
        MissingPart: there is none for this minor version, or none for this architecture; or this torch is not a
            release, and its C++ classes are not those of the library.
    """
    path = LIBRARIES / f"frugal_{kind}_{torch.tag}.so"
    if not path.is_file():
        built = ", ".join(built_minors(kind)) or "none"
        raise MissingPart(
            f"frugal_alloc has no {path.name} for PyTorch {torch.version} (built for: {built}); "
            "install frugal_alloc again in this environment, or a version of it that knows this PyTorch"
        )
    check_architecture(path)
    if not torch.is_release and headers_digest(torch.folder) != _built_for(torch):
        raise MissingPart(
            f"PyTorch {torch.version} is no release, and its C++ classes are not those that {path.name} was built for; "
            "install frugal_alloc from its source in this environment"
        )
    return path


def headers_digest(folder: Path) -> str | None:
    """Tells the C++ classes of a torch from others; None if it has no headers."""
    digest = hashlib.sha256()
    try:
        for header in _CLASS_HEADERS:
            digest.update((folder / "include" / header).read_bytes())
    except OSError:
        return None
    return digest.hexdigest()


def cmake_prefix_path() -> str:
    """The folders below which CMake finds this package and the LibTorch of the torch here, with a semicolon between.

    In a checkout and its environment the two do not lie side by side, where our CMake package looks by itself.
    """
    folders = [LIBRARIES.parent / "share" / "cmake"]
    with contextlib.suppress(MissingPart):  # our CMake package says what to do
        folders.append(find_torch().folder / "share" / "cmake")
    return ";".join(map(str, folders))


def _built_for(torch: Torch) -> str:
    """The digest of the headers that the library for this minor version was built with; "" if nobody knows."""
    try:
        return json.loads((LIBRARIES / f"frugal_alloc_{torch.tag}.json").read_text(encoding="utf-8"))["headers"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""

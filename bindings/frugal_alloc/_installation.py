"""What is installed beside this package, found out without importing torch."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = Path(__file__).resolve().parent / "_lib"


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


def check_platform() -> None:
    """Raises MissingPart where there can be no library of ours."""
    if sys.platform != "linux":
        raise MissingPart(f"frugal_alloc works on Linux, this is {sys.platform}; PyTorch keeps its own allocator")


def find_torch() -> Torch:
    """The torch that ``import torch`` would import.

    Raises:
        MissingPart: there is none.
    """
    spec = importlib.util.find_spec("torch")
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders or not (Path(folders[0]) / "version.py").is_file():
        raise MissingPart("PyTorch is not installed here; pip install torch")
    text = (Path(folders[0]) / "version.py").read_text()
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


def built_minors(kind: str = "alloc") -> list[str]:
    """The torch minor versions, as "2.11", that a library of this package is there for."""
    tags = (re.fullmatch(rf"frugal_{kind}_torch(\d)(\d+)\.so", path.name) for path in LIBRARIES.glob("*.so"))
    return sorted((f"{tag[1]}.{tag[2]}" for tag in tags if tag), key=lambda minor: int(minor.split(".")[1]))


def find_library(kind: str, torch: Torch) -> Path:
    """This package's library of that kind ("alloc", "replay") for that torch.

    Raises:
        MissingPart: there is none for this minor version.
    """
    path = LIBRARIES / f"frugal_{kind}_{torch.tag}.so"
    if not path.is_file():
        built = ", ".join(built_minors(kind)) or "none"
        raise MissingPart(
            f"frugal_alloc has no {path.name} for PyTorch {torch.version} (built for: {built}); "
            "install frugal_alloc again in this environment"
        )
    return path

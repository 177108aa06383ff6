"""What building for a torch takes, without installing it: headers and the two libraries that ours link.

    python tools/torch_sdk.py              fetches those of tools/torch_versions.txt, prints their folders
    python tools/torch_sdk.py 2.14.1       one version
    python tools/torch_sdk.py --pin 2.16.0 prints the line that tools/torch_versions.txt needs for a new one

They are taken out of the wheels on the package index that pip is configured for (tools/wheel_files.py), and kept in
~/.cache/frugal_alloc, so that a second time needs no network. Each folder keeps the SHA-256 of its files, and is
fetched again if one has changed. CUDA's headers are fetched likewise, where neither a toolkit nor torch's environment
has them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path.home() / ".cache" / "frugal_alloc"
MANIFEST = "SHA256SUMS"  # sha256sum's own format
TORCH_FILES = (
    "torch/include/c10/*",
    "torch/include/torch/headeronly/*",
    "torch/lib/libc10.so",
    "torch/lib/libc10_cuda.so",
    "torch/version.py",
)
CUDA = "13.0"  # whose headers all are built with: nothing that we call changed its signature between 12 and 13
# nvidia-cuda-runtime is not complete without the second.
CUDA_PACKAGES = (f"nvidia-cuda-runtime=={CUDA}.*", f"nvidia-cuda-crt=={CUDA}.*")


class SdkError(Exception):
    """The message is one line that says what to do."""


def versions() -> dict[str, str]:
    """The versions of tools/torch_versions.txt, oldest first, each with the SHA-256 of its headers."""
    lines = (HERE / "torch_versions.txt").read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def tag(version: str) -> str:
    """Names what is built for this torch's minor version: "torch211"."""
    return "torch" + "".join(version.split(".")[:2])


def torch(version: str) -> pathlib.Path:
    """The folder with include/, lib/ and version.py of this torch, fetched if it is not there.

    Raises:
        SdkError: it cannot be had, or its headers are not those that the project knows.
    """
    folder = CACHE / "torch-sdk" / version
    if not _is_whole(folder):
        _fetch(folder, "torch", [f"torch=={version}"], TORCH_FILES)
    known = versions().get(version)
    if known is not None and headers_digest(folder) != known:
        raise SdkError(
            f"the headers of the torch {version} that pip finds are not those that frugal_alloc knows; "
            f"see what changed, then put `python tools/torch_sdk.py --pin {version}` into tools/torch_versions.txt"
        )
    return folder


def cuda_headers(beside: pathlib.Path | None = None) -> pathlib.Path:
    """A folder whose include/ has CUDA's headers: the toolkit's, those beside torch, else fetched ones.

    Args:
        beside: The site-packages folder that torch is in.

    Raises:
        SdkError: they are nowhere, and cannot be fetched.
    """
    candidates = [pathlib.Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda")]
    if beside is not None:
        candidates.append(beside / "nvidia" / "cu13")
    for candidate in candidates:
        if all((candidate / "include" / name).exists() for name in ("cuda_runtime_api.h", "crt/host_config.h")):
            return candidate
    folder = CACHE / "cuda-headers" / CUDA
    if not _is_whole(folder):
        _fetch(folder, "nvidia/cu13", CUDA_PACKAGES, ("nvidia/cu13/include/*",))
    return folder


def headers_digest(folder: pathlib.Path) -> str:
    lines = (folder / MANIFEST).read_text().splitlines(keepends=True)
    headers = [line for line in lines if re.match(r"\w+  include/", line)]
    return hashlib.sha256("".join(headers).encode()).hexdigest()


def _sums(folder: pathlib.Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files
    )


def _is_whole(folder: pathlib.Path) -> bool:
    manifest = folder / MANIFEST
    return manifest.is_file() and manifest.read_text() == _sums(folder)


def _fetch(folder: pathlib.Path, inside: str, requirements: tuple[str, ...] | list[str], patterns: tuple) -> None:
    """Takes these files out of the wheels; what lies below `inside` there becomes the folder, in one step."""
    print(f"fetching {' '.join(requirements)} into {folder}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as near:
        for number, requirement in enumerate(requirements):
            part = pathlib.Path(near) / str(number)
            # -E: pip isolates builds by way of PYTHONPATH, and hides itself from them.
            command = [sys.executable, "-E", HERE / "wheel_files.py", requirement, part, *patterns]
            if subprocess.run(command).returncode:
                raise SdkError(f"{requirement} is not in {CACHE} and could not be fetched; the reason is above")
            shutil.copytree(part / inside, pathlib.Path(near) / "whole", dirs_exist_ok=True)
        whole = pathlib.Path(near) / "whole"
        (whole / MANIFEST).write_text(_sums(whole))
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 2.14.1; left out: all that we know")
    parser.add_argument("--pin", action="store_true", help="print the lines for tools/torch_versions.txt")
    options = parser.parse_args()
    wanted = options.versions or list(versions())
    if wrong := [version for version in wanted if not re.fullmatch(r"2\.\d+\.\d+", version)]:
        parser.error(f"{wrong[0]} is not a version of torch 2; write it like 2.14.1")
    try:
        for version in wanted:
            folder = torch(version)
            print(f"{version} {headers_digest(folder)}" if options.pin else folder)
    except SdkError as error:
        sys.exit(f"torch_sdk: {error}")


if __name__ == "__main__":
    main()

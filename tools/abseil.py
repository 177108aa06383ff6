"""Abseil's source, which a build needs: brought into .deps/abseil where it is not there.

    python tools/abseil.py

An sdist has it inside. FRUGAL_ABSEIL is a folder that has it, or the file or address of one of the archives below.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import urllib.request

HERE = ".deps/abseil"  # in the checkout, and in an sdist
# Of one version, by SHA-256: they differ in how they are packed.
ARCHIVES = {
    "https://github.com/abseil/abseil-cpp/archive/refs/tags/20220623.1.tar.gz": (
        "91ac87d30cc6d79f9ab974c51874a704de9c2647c40f6932597329a282217ba8"
    ),
    "https://deb.debian.org/debian/pool/main/a/abseil/abseil_20220623.1.orig.tar.gz": (
        "abfe2897f3a30edaa74bc34365afe3c2a3cd012091a97dc7e008f7016adcd5fe"
    ),
}
SECONDS = 30  # without an answer


class AbseilError(Exception):
    """The message is one line that says what to do."""


def source(root: pathlib.Path) -> pathlib.Path:
    """The folder with Abseil's source, brought there if it is nowhere.

    Args:
        root: The checkout, or the unpacked sdist.

    Raises:
        AbseilError: it cannot be had.
    """
    place = os.environ.get("FRUGAL_ABSEIL", "")
    if place and os.path.isdir(place):
        if not os.path.isdir(os.path.join(place, "absl")):
            raise AbseilError(f"FRUGAL_ABSEIL is {place}, which has no folder absl; set it to that of Abseil's source")
        return pathlib.Path(place)
    folder = root / HERE
    if not (folder / "absl").is_dir():
        _unpack(_archive([place] if place else list(ARCHIVES)), folder)
    return folder


def _archive(places: list[str]) -> bytes:
    refusals = []
    for place in places:
        try:
            # An address opens as it is; a file's name has no scheme.
            address = place if "://" in place else pathlib.Path(place).absolute().as_uri()
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                data = answer.read()
        except (OSError, ValueError) as error:
            refusals.append(f"{place} ({getattr(error, 'reason', error)})")
            continue
        if hashlib.sha256(data).hexdigest() in ARCHIVES.values():
            return data
        refusals.append(f"{place} (it is not the archive whose SHA-256 is known)")
    raise AbseilError(
        f"Abseil's source, which a build needs, could not be had from {' or '.join(refusals)}: set FRUGAL_ABSEIL to a "
        f"folder with it, or to a copy of {next(iter(ARCHIVES))}; nothing is built where pip finds a wheel for this "
        "machine"
    )


def _unpack(archive: bytes, folder: pathlib.Path) -> None:
    """In one step, so that an interrupted one leaves nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as near:
        packed = pathlib.Path(near, "archive")
        packed.write_bytes(archive)
        with tarfile.open(packed) as files:
            files.extractall(near)  # its hash is known
        (unpacked,) = [path for path in pathlib.Path(near).iterdir() if path.is_dir()]
        shutil.rmtree(folder, ignore_errors=True)
        unpacked.rename(folder)


if __name__ == "__main__":
    try:
        source(pathlib.Path(__file__).resolve().parent.parent)
    except AbseilError as error:
        sys.exit(f"tools/abseil.py: {error}")

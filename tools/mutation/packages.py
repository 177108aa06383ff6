"""What the mutation check needs of the package index: installed as it is first run, in a folder of its own."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

REQUIREMENTS = pathlib.Path(__file__).resolve().with_name("requirements.txt")


class NotInstalled(Exception):
    """The message is one line that says what to do."""


def folder() -> pathlib.Path:
    """Another one for other requirements and for another Python."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    return pathlib.Path.home() / ".cache" / "frugal_alloc" / f"mutation-{version}-{digest}"


def find() -> bool:
    """Has this process import them, if they are installed; whether they are."""
    if folder().is_dir():
        sys.path.append(str(folder()))
    return folder().is_dir()


def install() -> None:
    """Has this process import them, and installs them before that if need be.

    Raises:
        NotInstalled: pip is not there, or could not install.
    """
    if find():
        return
    folder().parent.mkdir(parents=True, exist_ok=True)
    near = tempfile.mkdtemp(dir=folder().parent)
    try:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        if subprocess.run([*pip, "--target", near, "-r", REQUIREMENTS]).returncode:
            raise NotInstalled(
                f"{sys.executable} could not install {REQUIREMENTS.name} with pip; its message is above. Without pip: "
                "tools/setup, then .venv/bin/python tools/mutation/mutants"
            )
        # Whole or not at all.
        pathlib.Path(near).rename(folder())
    finally:
        shutil.rmtree(near, ignore_errors=True)
    find()

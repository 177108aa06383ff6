"""An AArch64 Linux on an x86-64 machine: Debian 12's packages in a folder, whose programs QEMU's user emulation runs.

    python tools/aarch64_system.py                fetches it (110 MB), prints its folder
    python tools/aarch64_system.py COMMAND...     runs a command in it: /usr/bin/python3.11 -V

It is kept in ~/.cache/frugal_alloc/aarch64. apt-get fetches the packages, with lists of its own and checked against
Debian's signatures (package debian-archive-keyring), and installs nothing on this machine. QEMU is that of Debian's
backports: before its version 8 it needs memory for each page of the addresses that a program reserves, and the
simulated GPU reserves 4 TiB.

Programs run in a user and mount namespace in which the kernel (6.7 or newer) hands AArch64's programs to QEMU, also
those that they start themselves; nothing of that is seen outside. Their memory is ordered as strictly as x86-64's,
which AArch64's is not, and their pages have 4 KiB.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import torch_sdk

CACHE = torch_sdk.CACHE / "aarch64"
# In a system's folder.
ROOT = "root"
QEMU = "qemu/usr/bin/qemu-aarch64"
PACKAGES = ("googletest", "libgmock-dev", "libgtest-dev", "libstdc++6", "python3.11")
QEMU_PACKAGE = "qemu-user:amd64/bookworm-backports"
PYTHON = "/usr/bin/python3.11"
SITE = "/usr/local/lib/python3.11/dist-packages"  # where this Python looks, and no package of Debian lies

_KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SOURCES = f"""\
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main
Signed-By: {_KEYRING}

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: {_KEYRING}
"""
_APT = """\
Dir::State "{apt}/state";
Dir::State::status "{apt}/state/status";
Dir::Cache "{apt}/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{apt}/sources";
APT::Architecture "arm64";
APT::Architectures {{"arm64"; "amd64";}};
APT::Sandbox::User "";
"""
# A program for AArch64, by the head of its file, goes to QEMU: opened now (F), with the program's own credentials (OC).
_FORMAT = (
    r":qemu-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{qemu}:OCF"
)
# Arguments: the format, the root, folder:place pairs up to "--", the command.
_ENTER = r"""
set -eu
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc || {
    echo "aarch64_system: this kernel gives a user namespace no emulators of its own; Linux 6.7 or newer does" >&2
    exit 2
}
printf '%s' "$1" > /proc/sys/fs/binfmt_misc/register
root=$2
shift 2
for known in /dev /proc /sys; do mount --rbind "$known" "$root$known"; done
while [ "$1" != -- ]; do
    mkdir -p "$root${1#*:}"
    mount --bind "${1%%:*}" "$root${1#*:}"
    shift
done
shift
exec chroot "$root" "$@"
"""


class EmulationError(Exception):
    """The message is one line that says what to do."""


def folder() -> pathlib.Path:
    """The system's folder, with ROOT and QEMU in it; fetched if it is not there.

    Raises:
        EmulationError: this machine cannot fetch it; apt-get's messages are above.
    """
    system = CACHE / "debian12"
    if not system.is_dir():
        _check_tools()
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as near:
            _fetch(pathlib.Path(near))
            (pathlib.Path(near) / "system").rename(system)
    return system


def run(
    command: list[str], environment: Mapping[str, str] | None = None, places: Mapping[pathlib.Path, str] | None = None
) -> int:
    """Runs a command in the system, with this process's streams; returns its exit status.

    Args:
        command: Its program by its path there.
        environment: All that it gets, beside a PATH.
        places: Folders of this machine, and where the command sees each.

    Raises:
        EmulationError: as of folder().
    """
    system = folder()
    pairs = [f"{here}:{there}" for here, there in (places or {}).items()]
    register = _FORMAT.format(qemu=system / QEMU)
    enter = ["unshare", "--user", "--map-root-user", "--mount", "--fork", "sh", "-c", _ENTER, "sh", register]
    known = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp"} | dict(environment or {})
    return subprocess.run([*enter, system / ROOT, *pairs, "--", *command], env=known, cwd="/").returncode


def _check_tools() -> None:
    for tool in ("apt-get", "dpkg-deb", "unshare"):
        if shutil.which(tool) is None:
            raise EmulationError(f"there is no {tool} here, which Debian 12 and Ubuntu 24.04 have")
    if not _KEYRING.exists():
        raise EmulationError(f"there is no {_KEYRING}; apt-get install debian-archive-keyring")


def _fetch(near: pathlib.Path) -> None:
    """Makes near/system."""
    apt, system = near / "apt", near / "system"
    for inside in ("state/lists/partial", "cache/archives/partial", "sources"):
        (apt / inside).mkdir(parents=True)
    (apt / "state" / "status").touch()
    (apt / "sources" / "debian.sources").write_text(_SOURCES)
    (apt / "apt.conf").write_text(_APT.format(apt=apt))
    archives = apt / "cache" / "archives"
    for command in (["update"], ["install", *PACKAGES], ["download", QEMU_PACKAGE]):
        options = ["-qq", "-o", "Acquire::Retries=5", "--no-install-recommends", "--download-only", "--yes"]
        environment = os.environ | {"APT_CONFIG": str(apt / "apt.conf")}
        if subprocess.run(["apt-get", *options, *command], env=environment, cwd=archives, stdout=sys.stderr).returncode:
            raise EmulationError(f"apt-get could not fetch {' '.join(command[1:])}; its messages are above")
    for package in sorted(archives.glob("*.deb")):
        inside = "qemu" if package.name.startswith("qemu-user_") else ROOT
        (system / inside).mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", package, system / inside], check=True)
    for place in ("dev", "proc", "sys", "tmp"):
        (system / ROOT / place).mkdir(exist_ok=True)


if __name__ == "__main__":
    if sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    try:
        if sys.argv[1:]:
            sys.exit(run(sys.argv[1:]))
        print(folder())
    except EmulationError as error:
        sys.exit(f"aarch64_system: {error}")

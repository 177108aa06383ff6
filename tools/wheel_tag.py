"""What a wheel's name may promise about the machines that its libraries load on."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

# ctypes loads the libraries, so that one wheel serves every Python 3.
ANY_PYTHON = "py3-none"
# The newest symbol versions of the GNU C++ and GCC runtimes that a system with this minor version of glibc 2 has at
# least: the manylinux policies, as auditwheel lists them.
POLICIES = {
    28: {"GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"},
    31: {"GLIBCXX": "3.4.28", "CXXABI": "1.3.12", "GCC": "7.0.0"},
    34: {"GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"},
    35: {"GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"},
    39: {"GLIBCXX": "3.4.33", "CXXABI": "1.3.15", "GCC": "14.0.0"},
}


def local_tag() -> str:
    """Promises nothing beyond machines like this one."""
    return f"{ANY_PYTHON}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def tag(libraries: dict[str, bytes], architecture: str) -> str:
    """The oldest glibc on which all of these load, as in py3-none-manylinux_2_36_x86_64.

    What auditwheel would say, were it told that torch brings libc10 and libc10_cuda; but it wants to copy other
    libraries into the wheel and to rename them, and the simulated GPU's have to keep their names.
    """
    objdump = shutil.which("objdump")
    if objdump is None or sys.platform != "linux" or not libraries:
        return local_tag()
    newest: dict[str, tuple[int, ...]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for data in libraries.values():
            path = pathlib.Path(folder) / "library"
            path.write_bytes(data)
            text = subprocess.run([objdump, "-p", path], check=True, capture_output=True, text=True).stdout
            for family, version in re.findall(r" (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)$", text, re.MULTILINE):
                newest[family] = max(newest.get(family, ()), _number(version))
            os.unlink(path)
    minor = max(28, newest.pop("GLIBC", (2, 0))[1])
    for policy, allowed in POLICIES.items():
        if any(version > _number(allowed[family]) for family, version in newest.items()):
            minor = max(minor, _next_policy(policy))
    return f"{ANY_PYTHON}-manylinux_2_{minor}_{architecture}"


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _next_policy(policy: int) -> int:
    newer = [other for other in POLICIES if other > policy]
    return newer[0] if newer else policy + 1

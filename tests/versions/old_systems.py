"""What the oldest systems that the wheel is for have, and where it is built for them."""

from __future__ import annotations

import platform

import pytest


def _is_debian_12() -> bool:
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return False
    return (system.get("ID"), system.get("VERSION_ID")) == ("debian", "12")


# .github/workflows/wheels.yml builds releases there. Compilers and C++ libraries of newer systems ask for more.
ON_DEBIAN_12 = pytest.mark.skipif(not _is_debian_12(), reason="releases are built on Debian 12")
# The newest symbols of manylinux_2_28, which torch's own wheels are: RHEL 8's, Debian 10's.
NEWEST_SYMBOLS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}

"""Runs a command that can write below some folders and nowhere else: ``python write_only_in.py FOLDER... -- COMMAND``.

By Linux' Landlock; exit status 77 where the kernel has none.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_PATH_BENEATH = 1
# Of LANDLOCK_ACCESS_FS_*: to write a file, to remove, and to make one of any kind.
_WRITING = 1 << 1 | sum(1 << bit for bit in range(4, 13))
NO_LANDLOCK = 77


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def main() -> None:
    split = sys.argv.index("--")
    libc = ctypes.CDLL(None, use_errno=True)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(_Ruleset(_WRITING)), 8, 0)
    if ruleset < 0:
        sys.exit(NO_LANDLOCK)
    for folder in [*sys.argv[1:split], "/dev", "/proc"]:
        rule = _PathBeneath(_WRITING, os.open(folder, os.O_PATH))
        if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0):
            sys.exit(f"{folder}: {os.strerror(ctypes.get_errno())}")
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, ruleset, 0):
        sys.exit(f"Landlock: {os.strerror(ctypes.get_errno())}")
    command = sys.argv[split + 1 :]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()

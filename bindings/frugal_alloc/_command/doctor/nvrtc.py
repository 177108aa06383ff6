"""NVRTC, the compiler that torch's wheels bring, by ctypes: CUDA source text to what this device's driver loads."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from ctypes import c_char_p, c_int, c_size_t, c_void_p

from ..._common import installation
from ..._simulation import nvrtc_files
from .step_report import CannotTell

_LIBRARY = "libnvrtc.so"
_SYSTEM = ("libnvrtc.so.13", "libnvrtc.so.12")


class NvrtcError(CannotTell):
    """There is no NVRTC, or it does not compile; the message is one line."""


class Compiler:
    def __init__(self) -> None:
        """
        Raises:
            NvrtcError: none is found.
        """
        self._library = _load()
        self._library.nvrtcGetErrorString.restype = c_char_p

    def compile(self, source: str, name: str, capability: tuple[int, int]) -> bytes:
        """A module for a device of this compute capability: its machine's code, or PTX where the compiler is older than
        the device."""
        number = capability[0] * 10 + capability[1]
        known = self._architectures()
        if number in known:
            return self._compile(source, name, f"sm_{number}", "CUBIN")
        older = [one for one in known if one < number]
        if not older:
            raise NvrtcError(f"NVRTC knows no architecture as old as sm_{number}; install a torch for this GPU")
        return self._compile(source, name, f"compute_{max(older)}", "PTX")

    def _compile(self, source: str, name: str, architecture: str, kind: str) -> bytes:
        program = c_void_p()
        self._check("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), c_int(0), None, None)
        try:
            options = (c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--std=c++17")
            if self._library.nvrtcCompileProgram(program, c_int(len(options)), options) != 0:
                log = self._get(program, "ProgramLog").decode(errors="replace").strip("\0\n").splitlines()
                raise NvrtcError(f"{name} does not compile for {architecture}: {log[0] if log else 'no reason given'}")
            return self._get(program, kind)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _get(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._check(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._check(f"nvrtcGet{what}", program, text)
        return text.raw

    def _architectures(self) -> list[int]:
        count = c_int()
        self._check("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        known = (c_int * count.value)()
        self._check("nvrtcGetSupportedArchs", known)
        return list(known)

    def _check(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise NvrtcError(f"{name} fails with {self._library.nvrtcGetErrorString(status).decode()}")


def _load() -> ctypes.CDLL:
    tried = ""
    for path in _in_packages():
        try:
            nvrtc_files.load_builtins(path)
            return ctypes.CDLL(path)
        except OSError as error:
            tried = str(error)
    for name in _SYSTEM:
        # Where the linker finds it by its name, it finds the builtins by theirs.
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise NvrtcError(
        f"no {_LIBRARY} that loads, in torch's packages or the system{': ' if tried else ''}{tried}; "
        "install the nvidia-cuda-nvrtc package that belongs to this torch"
    )


def _in_packages() -> Iterator[str]:
    """Those of the torch that would be imported come first."""
    folders = [entry for entry in sys.path if entry]
    with contextlib.suppress(installation.MissingPart):
        folders.insert(0, str(installation.find_torch().folder.parent))
    return nvrtc_files.find(folders)

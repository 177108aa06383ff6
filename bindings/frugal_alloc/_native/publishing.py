"""What the process tells ``frugal-alloc top`` while it runs; see bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from .calls import Functions, encode


class PublishedVerdict(NamedTuple):
    """What leaks or grows, in a line for people."""

    kind: str
    gpu: int
    text: str
    bytes_per_epoch: float


class _PublishedVerdict(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_char_p),
        ("gpu", ctypes.c_int),
        ("text", ctypes.c_char_p),
        ("bytes_per_epoch", ctypes.c_double),
    )


# Result and arguments of each function, as bindings/c_api/c_api.h declares them.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "frugal_publish_verdicts": (None, ctypes.POINTER(_PublishedVerdict), ctypes.c_int),
    "frugal_take_look": (ctypes.c_int,),
    "frugal_correct_verdict": (None, ctypes.c_int, ctypes.c_char_p),
}


class PublishingFunctions(Functions):
    """What is answered to whoever asks the process."""

    def publish_verdicts(self, verdicts: list[PublishedVerdict]) -> None:
        """From now on these are told in the place of the library's own."""
        rows = [
            _PublishedVerdict(encode(verdict.kind), verdict.gpu, encode(verdict.text), verdict.bytes_per_epoch)
            for verdict in verdicts
        ]
        self._library.frugal_publish_verdicts((_PublishedVerdict * len(rows))(*rows), len(rows))

    def take_look(self) -> bool:
        """Whether somebody has been answered since the last call."""
        return bool(self._library.frugal_take_look())

    def correct_verdict(self, gpu: int, verdict: str) -> None:
        """The latest out-of-memory error of the GPU is thought to have this cause."""
        self._library.frugal_correct_verdict(gpu, encode(verdict))

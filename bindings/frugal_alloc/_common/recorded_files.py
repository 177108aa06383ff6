"""Reads a file that somebody else made: unpacks it, and turns it into plain Python values, without trusting it.

Nothing in the file is run, and neither its unpacked size nor the memory that its values take can exhaust the machine.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import os
import pickle
import re
import resource
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from . import host_memory
from .messages import format_bytes

# Far above any recording that a browser's viewer of it could still open.
MAX_UNPACKED_BYTES = 1 << 30
# The values of a recording take up to twelve bytes for each of the file's, those of short rows of numbers seventeen.
_BYTES_FOR_EACH = 24
# To unpack a file takes up to 65 MiB.
_BYTES_FOR_ANY = 96 << 20
_XZ_MAGIC = b"\xfd7zXZ\x00"
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20
_JSON_START = re.compile(rb"\s*[{\[]")


class UnreadableFile(Exception):
    """The file cannot be read; the message names it and says what to do."""


def read_bytes(path: str | os.PathLike[str], most_bytes: int | None = None) -> bytes:
    """What a file holds, which may be packed by xz or gzip, and must then come to at most so much."""
    path = Path(path)
    data = _unpack(path, MAX_UNPACKED_BYTES if most_bytes is None else most_bytes)
    if not data:
        raise UnreadableFile(f"{path} is empty; record it again")
    return data


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """Opens a file, and nothing else that has a path: a pipe would make us wait for ever, a device never ends.

    Raises:
        UnreadableFile: there is no such file, it is something else, or it may not be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnreadableFile(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise UnreadableFile(f"{path} is a folder; name a file in it")
    raise UnreadableFile(f"{path} is a pipe or a device; copy what it holds to a file first")


def parse_values(data: bytes, path: str | os.PathLike[str]) -> Any:
    """The value of a pickle or JSON that was read from `path`."""
    if data[:1] == b"\x80":
        parse, kind = _unpickle, "pickle"
    elif _JSON_START.match(data):
        parse, kind = json.loads, "JSON"
    else:
        raise UnreadableFile(f"{path} is neither a pickle nor JSON, plain or packed by xz or gzip")
    try:
        # CPython's unpickler complains on standard error, besides raising, of a bytearray that does not fit.
        with bounded_memory(path, len(data)), contextlib.redirect_stderr(io.StringIO()):
            return parse(data)
    except UnreadableFile:
        raise
    except pickle.UnpicklingError as error:
        raise UnreadableFile(f"{path} is damaged, or is not what it says: {error}") from None
    except Exception as error:  # A damaged pickle fails in whatever way the bytes lead to.
        reason = str(error).split("\n")[0] or type(error).__name__
        raise UnreadableFile(f"{path} is damaged ({kind}: {reason}); copy or record it again") from None


class _PlainUnpickler(pickle.Unpickler):
    """Containers, strings and numbers only: whatever would import or call something is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(
            f"it asks for {module}.{name}, and a history is plain containers, text and numbers"
        )

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside itself")


def _unpickle(data: bytes) -> Any:
    return _PlainUnpickler(io.BytesIO(data)).load()


def _unpack(path: Path, most_bytes: int) -> bytes:
    try:
        with open_file(path) as file, bounded_memory(path, most_bytes, bytes_for_each=1):
            magic = file.read(len(_XZ_MAGIC))
            file.seek(0)
            if magic == _XZ_MAGIC:
                return _read_bounded(lzma.LZMAFile(file), path, most_bytes)
            if magic.startswith(_GZIP_MAGIC):
                return _read_bounded(gzip.GzipFile(fileobj=file), path, most_bytes)
            return _read_bounded(file, path, most_bytes)
    except (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise UnreadableFile(f"{path} is damaged or cut short ({error}); copy or record it again") from None
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}") from None


def _read_bounded(file: IO[bytes], path: Path, most_bytes: int) -> bytes:
    data = io.BytesIO()
    while chunk := file.read(_CHUNK_BYTES):
        if data.tell() + len(chunk) > most_bytes:
            raise UnreadableFile(f"{path} unpacks to more than {format_bytes(most_bytes)}; record fewer entries")
        data.write(chunk)
    # Not a copy, unlike bytes() of a bytearray.
    return data.getvalue()


@contextlib.contextmanager
def bounded_memory(path: str | os.PathLike[str], count: int, bytes_for_each: int = _BYTES_FOR_EACH) -> Iterator[None]:
    """Within it, this process takes only as much memory as so many bytes of the file warrant, and half of what is free.

    A few bytes of a pickle can ask for gigabytes (an index into the memo is enough), which no look at its size shows.

    Raises:
        UnreadableFile: more was asked for.
    """
    more = _BYTES_FOR_ANY + bytes_for_each * count
    free = host_memory.available_bytes()
    is_scarce = free is not None and free // 2 < more
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = host_memory.mapped_bytes() + (free // 2 if is_scarce else more)
    resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    except MemoryError:
        # To say so takes memory, too.
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        what = "asks for far more memory than its size warrants; it is damaged or malicious"
        if is_scarce:
            what = (
                f"takes more than half of the memory that is free, {format_bytes(free)}; "
                "free some, or record fewer entries"
            )
        raise UnreadableFile(f"{path} {what}") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

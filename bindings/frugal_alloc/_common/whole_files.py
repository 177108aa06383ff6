"""Files that are written whole or not at all: whoever reads one sees the old or the new one."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator

# As open() makes files: the process's umask takes from it.
_USUAL_PERMISSIONS = 0o666


def write(path: str, data: bytes) -> None:
    """Replaces a file at once; the new one has the old one's permissions. A link at the path is replaced, not followed.

    Raises:
        OSError: it cannot be written; an old file is left as it was.
    """
    with unfinished(path, data) as temporary:
        with contextlib.suppress(FileNotFoundError):
            old = os.lstat(path).st_mode
            if stat.S_ISREG(old):
                os.chmod(temporary, stat.S_IMODE(old))
        os.replace(temporary, path)


@contextlib.contextmanager
def unfinished(path: str, data: bytes, permissions: int = _USUAL_PERMISSIONS) -> Iterator[str]:
    """A new file with the data, in the folder of `path`, to be renamed to it; it is removed if it was not.

    Renaming replaces a name. It never opens or follows what has that name.
    """
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    # Never a file, or a link, that somebody else has put there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, permissions)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)

"""What is asked of the file system: whole writes, and its errors in the library's words."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from typing import TYPE_CHECKING

from langchain_sessions.errors import CommitUnknownError, CorruptRowError, StoreUnavailableError

if sys.platform == "darwin":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOCKED = "is locked by another process; try again."
_PROBLEMS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "is on a disk that is full; nothing was written."),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "is read-only or somebody else's; nothing was written."),
}


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Say in the library's words what the file system refused."""
    try:
        yield
    except OSError as error:
        other = _LOCKED if isinstance(error, TimeoutError) else "cannot be read or written; see the cause."
        raise StoreUnavailableError(f"The folder of the sessions {_PROBLEMS.get(error.errno or 0, other)}") from error


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if sys.platform == "win32" and path.is_dir():  # it knows no such thing
        return
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        if sys.platform == "darwin":  # it only hands things to the disk, unless it is asked for more
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that a power cut does not take them back."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in the place of another: whoever reads sees one or the other, also after a power cut.

    Raises:
        CommitUnknownError: It is there, but a power cut may take it back.
    """
    made = path.with_name(f"{path.name}.new")
    made.write_bytes(data)
    sync(made)
    until = time.monotonic() + 1
    while True:
        try:
            made.replace(path)
            break
        except OSError as error:
            if path.is_file() and path.read_bytes() == data:  # NFS asks twice, and says no to what it has done
                break
            # On Windows somebody who reads the old file is in the way for a moment.
            if sys.platform != "win32" or not isinstance(error, PermissionError) or time.monotonic() > until:
                raise
            time.sleep(0.001)
    try:
        sync(path.parent)
    except OSError as error:
        raise CommitUnknownError from error


def append(path: Path, size: int, data: bytes) -> None:
    """Write behind the first `size` bytes of a file: what a crash left there goes, and nothing is left of a failure."""
    if size and path.stat().st_size < size:
        raise CorruptRowError(f"{path.name} of a session is shorter than its head says; restore it from a copy.")
    try:
        with path.open("r+b" if size else "wb") as file:
            file.seek(file.truncate(size))
            file.write(data)
        sync(path)
    except OSError:
        with contextlib.suppress(OSError):
            os.truncate(path, size)
        raise

"""Files that appear whole or not at all, readable by their owner only, whatever the umask is."""

from __future__ import annotations

import errno
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, TextIO

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
PRIVATE_UMASK: Final = 0o077
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@contextmanager
def whole_file(path: Path, *, is_new: bool = False, is_durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write; it has its name once all of it is on the disk, and else is removed.

    A device or a pipe, such as ``/dev/stdout``, is written as it is.

    Args:
        path: Of the file; its folder is there.
        is_new: A file that is there already is not replaced.
        is_durable: It outlives a power cut.
    Raises:
        FileExistsError: It is there, and had to be new.
        OSError: It cannot be written; nothing of it is left.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as out:
            yield out
        return
    target = resolved(path)  # a link stays one
    if is_new and target.exists():
        raise FileExistsError(f"{path} exists")
    aside = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with open_private(aside) as out:
            yield out
            out.flush()
            if is_durable:
                os.fsync(out.fileno())
        if not is_new or not _linked(aside, target):
            aside.replace(target)
        if is_durable:
            sync_folder(target.parent)
    finally:
        with suppress(OSError):
            aside.unlink()


def resolved(path: Path) -> Path:
    """Return the absolute path of what links lead to.

    Raises:
        OSError: They lead in a circle, which :meth:`Path.resolve` calls a RuntimeError.
    """
    try:
        return path.resolve()
    except RuntimeError as exc:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from exc


def _linked(aside: Path, target: Path) -> bool:
    """Give a file its name, which unlike a rename replaces nothing; ``False``: no links here.

    Raises:
        FileExistsError: The name is taken.
    """
    try:
        os.link(aside, target)
    except OSError as exc:
        if exc.errno in _NO_LINKS:
            return False
        raise
    return True


@contextmanager
def whole_text(path: Path, *, is_new: bool = False, newline: str | None = None) -> Iterator[TextIO]:
    """Open a text file (UTF-8) to write, see :func:`whole_file`.

    Args:
        path: Of the file.
        is_new: A file that is there already is not replaced.
        newline: See :func:`open`.
    Raises:
        OSError: It cannot be written; nothing of it is left.
    """
    with whole_file(path, is_new=is_new) as out:
        text = io.TextIOWrapper(out, encoding="utf-8", newline=newline)
        yield text
        text.detach()  # writes what is left, and leaves the file open


def write_whole(path: Path, content: bytes, *, is_durable: bool = True) -> None:
    """Write a file at once, see :func:`whole_file`; one that is there is replaced.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    with whole_file(path, is_durable=is_durable) as out:
        out.write(content)


def open_private(path: Path) -> BinaryIO:
    """Make a file that only its owner can read, from the first byte on, and open it to write.

    Raises:
        FileExistsError: It is there already.
        OSError: It cannot be made.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    return os.fdopen(handle, "wb")


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that lack, for their owner only; none is changed.

    Raises:
        OSError: It cannot be made.
    """
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)  # another process may be faster


def sync_folder(folder: Path) -> None:
    """Let the names in a folder outlive a power cut, where its file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

"""Reading a file that a person named: whole, bounded, compressed or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

from core.errors import InputError

MAX_BYTES: Final = 512 * 1024**2
"""Largest content; a broker's metrics have some 10 MB."""
_GZIP: Final = b"\x1f\x8b"


def read_input(path: Path, hint: str) -> bytes:
    """Return the content of a file, decompressed where it is a gzip.

    Args:
        path: The file.
        hint: What to name instead.
    Raises:
        InputError: It cannot be read, is empty, damaged or too large.
    """
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}.", hint=hint) from exc
    if body.startswith(_GZIP):
        body = _decompressed(body, path, hint)
    if len(body) > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES // 1024**2} MiB.", hint=hint)
    if not body.strip():
        raise InputError(f"{path} is an empty file.", hint=hint)
    return body


def _decompressed(body: bytes, path: Path, hint: str) -> bytes:
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        return reader.decompress(body, MAX_BYTES + 1)
    except (zlib.error, gzip.BadGzipFile) as exc:
        raise InputError(f"{path} is a damaged gzip file: {exc}.", hint=hint) from exc

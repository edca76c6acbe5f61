"""How much is read of what others have written, and what it may become when it is decoded.

Bounds of what servers answer are settings: :class:`connectors.config.model.ReadLimits`. Those of
files are fixed here; they are far above what this program writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 64 * 2**20
"""Largest plan, and largest manifest of a snapshot."""
MAX_CONFIG_BYTES: Final = 4 * 2**20
"""Largest configuration file."""
MAX_LINE_BYTES: Final = 64 * 2**20
"""Longest line of a dump of znodes; a znode is smaller than 1 MiB by default."""
MAX_COMMIT_BYTES: Final = 8 * 2**20
"""Largest commit in the log of a local history; one of this program takes kilobytes."""
MAX_DECODED_BYTES: Final = 512 * 2**20
"""What a JSON file or line may take decoded."""
_OBJECT_BYTES: Final = 256
"""An object as a dict of few keys, or as a struct of some twenty fields."""
_ARRAY_BYTES: Final = 88
_MEMBER_BYTES: Final = 32


class TooLargeError(ValueError):
    """A file or a text is larger than it may be, or would be when it is decoded."""


def json_weight(text: bytes) -> int:
    """Return about how many bytes a JSON text takes, itself included, once it is decoded.

    Two bytes can become an object of 300. Braces, brackets and commas within texts count as well:
    an upper bound, not a measure.
    """
    return (
        len(text)
        + _OBJECT_BYTES * text.count(b"{")
        + _ARRAY_BYTES * text.count(b"[")
        + _MEMBER_BYTES * text.count(b",")
    )


def checked_json(text: bytes) -> bytes:
    """Return a JSON text that may be decoded.

    Raises:
        TooLargeError: Decoded, it would take more than :data:`MAX_DECODED_BYTES`.
    """
    if json_weight(text) > MAX_DECODED_BYTES:
        raise TooLargeError(f"it would need more than {MAX_DECODED_BYTES // 2**20} MiB of memory")
    return text


def read_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Return the content of a file; also of a pipe or a device, which has no size.

    Args:
        path: The file.
        max_bytes: Largest content; ``None`` for :data:`MAX_FILE_BYTES`.
    Raises:
        OSError: It cannot be read.
        TooLargeError: It is larger.
    """
    limit = MAX_FILE_BYTES if max_bytes is None else max_bytes
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise TooLargeError(f"it is larger than {limit // 2**20} MiB")
    return content

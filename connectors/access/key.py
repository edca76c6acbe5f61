"""The installation's key: made once, readable by its owner only."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import platformdirs

from core.actions.authority import is_genuine
from core.errors import ConfigError
from core.files import make_private, whole_text

if TYPE_CHECKING:
    from connectors.config.access import AccessConfig
    from core.actions.events import Record

_BYTES: Final = 32
_OTHERS: Final = 0o077


def key_path(access: AccessConfig) -> Path:
    """Return the key file; by default one per user of the operating system."""
    default = platformdirs.user_data_path("trimtab", appauthor=False) / "installation.key"
    return access.key_file or default


def installation_key(access: AccessConfig) -> bytes:
    """Return the key; the first who asks makes it.

    Raises:
        ConfigError: It cannot be read or written, is no key, or others may read it.
    """
    return _key_at(key_path(access))


def _key_at(path: Path) -> bytes:
    try:
        if not path.exists():
            _make(path)
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_mode)
    except OSError as exc:
        raise ConfigError(
            f"The installation's key {path} cannot be used: {exc.strerror}.",
            hint="Set key_file under [access] to a file that this user can read.",
        ) from exc


def readable_key(path: Path) -> bytes | None:
    """Return the key in a file, or ``None`` if missing or unreadable."""
    try:
        return _key_at(path) if path.exists() else None  # whoever only reads makes none
    except (ConfigError, OSError):
        return None


def signature_check(path: Path) -> Callable[[Record], bool]:
    """Return the check of a record's signature; where no key can be read, all pass it.

    Args:
        path: Of the installation's key.
    """

    def is_signed(record: Record) -> bool:
        key = readable_key(path)
        return key is None or is_genuine(record, key)

    return is_signed


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int, mode: int) -> bytes:  # noqa: ARG001  # key of the cache
    if mode & _OTHERS:
        raise ConfigError(
            f"The installation's key {path} is readable by other users.",
            hint=f"Run: chmod 600 {path}",
        )
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        key = b""
    if len(key) < _BYTES:
        raise ConfigError(
            f"{path} is not a key: it must have at least {2 * _BYTES} hexadecimal digits.",
            hint="Remove it to create a new key; entries signed with the old key are then refused.",
        )
    return key


def _make(path: Path) -> None:
    """Write a new key whole or not at all; of two processes that do it at once one wins."""
    make_private(path.parent)
    with suppress(FileExistsError), whole_text(path, is_new=True) as file:
        file.write(secrets.token_hex(_BYTES) + "\n")

"""The state folder is for its owner's eyes: folders 0700, files 0600, whatever the umask is."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, SecretStr

from connectors.transport.redaction import is_weak
from core.files import PRIVATE_UMASK, make_private

if TYPE_CHECKING:
    from connectors.config.model import TrimtabConfig

_OTHERS: Final = PRIVATE_UMASK
_ROOT: Final = 0
_SHARED: Final = stat.S_ISVTX
"""``/tmp`` and the like are everybody's: what is in them is tightened, they are not."""


def keep_private(state_dir: Path) -> None:
    """Make the state folder, tighten what earlier versions left open, and write privately from now.

    Of folders and files of other users nothing is changed.

    Args:
        state_dir: Of the configuration.
    """
    os.umask(_OTHERS)
    with suppress(OSError):  # whoever writes there says why that does not work
        make_private(state_dir)
    if state_dir.resolve() in (Path.home().resolve(), Path("/")):
        return
    _tighten(state_dir)
    for folder, folders, files in os.walk(state_dir):
        for name in (*folders, *files):
            _tighten(Path(folder) / name)


def _tighten(path: Path) -> None:
    with suppress(OSError):  # it was removed meanwhile, or belongs to another user
        found = path.lstat()
        mode = stat.S_IMODE(found.st_mode)
        is_ours = found.st_uid == os.getuid() and not stat.S_ISLNK(found.st_mode)
        if is_ours and mode & _OTHERS and not mode & _SHARED:
            path.chmod(mode & ~_OTHERS)


def readable_by_others(path: Path) -> bool:
    """Return whether users other than the owner can read a file; false if missing."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False


def exposed_secrets(config: TrimtabConfig) -> list[str]:
    """Return a sentence for each file or folder with secrets that others may read or change."""
    found = _of_others(config.state_dir) + _of_others(config.users_file)
    if config.file is not None and readable_by_others(config.file):
        names = sorted(_inline(config, config.file))
        if names:
            found.append(_exposed(config.file, f" and has {', '.join(names)}"))
    files = {path for one in _parts(config) for path in _secret_files(one)} | {config.users_file}
    found += [_exposed(path, "") for path in sorted(files) if readable_by_others(path)]
    found += [
        f"{name} is short or a number; in texts from endpoints it is masked only after words "
        "such as Bearer or password. Use a longer secret."
        for name, value in _secrets(config)
        if is_weak(value)
    ]
    return found


def _of_others(path: Path) -> list[str]:
    """Return a sentence if another user, who can change what is in it, owns a file or folder."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return []
    if owner in (os.getuid(), _ROOT):
        return []
    what = f"{path} belongs to another user (uid {owner}), who can change its content."
    return [f"{what} Run Trimtab as that user, or: chown -R {os.getuid()} {path}"]


def _exposed(path: Path, more: str) -> str:
    return f"{path} is readable by other users{more}. Run: chmod 600 {path}"


def _parts(config: TrimtabConfig) -> list[tuple[str, BaseModel]]:
    found: list[tuple[str, BaseModel]] = []
    for cluster in config.clusters:
        parts = {
            "auth": cluster.auth,
            "zookeeper_auth": cluster.zookeeper_auth,
            "tls": cluster.tls,
            "prometheus.auth": getattr(cluster.prometheus, "auth", None),
        }
        found += [(f"{cluster.name}.{name}", part) for name, part in parts.items() if part]
    found += [(f"alerts.{target.name}", target) for target in config.alerts.targets]
    return [*found, ("access", config.access)]


def _secrets(config: TrimtabConfig) -> list[tuple[str, str]]:
    found = [
        (f"{name}.{key}", value.get_secret_value())
        for name, part in _parts(config)
        for key, value in part
        if isinstance(value, SecretStr)
    ]
    found += [
        (f"history.options.{key}", value.get_secret_value())
        for key, value in config.history.options.items()
        if any(word in key.lower() for word in ("secret", "token", "password", "key"))
    ]
    if config.journal_url is not None and "@" in config.journal_url.get_secret_value():
        found.append(("journal_url", config.journal_url.get_secret_value()))
    return found


def _inline(config: TrimtabConfig, file: Path) -> list[str]:
    """Names of the secrets that stand in the file itself, not in the environment."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    return [name for name, value in _secrets(config) if value and value in text]


def _secret_files(part: tuple[str, BaseModel]) -> list[Path]:
    names = ("token_file", "password_file", "digest_file", "key_file", "url_file")
    values = [getattr(part[1], name, None) for name in names]
    return [value for value in values if isinstance(value, Path)]

"""What a path holds that was named as a snapshot and is none: the error names it, and the fix."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import msgspec

from core.errors import SnapshotError
from core.units import pluralize

MANIFEST: Final = "manifest.json"
MAKE_ONE: Final = (
    "Create a snapshot with `trimtab capture CLUSTER --out DIR` or `trimtab import-zk`."
)
_MAX_LINE: Final = 4 * 1024**2
"""Bytes of the first line; ZooKeeper's own limit of a znode is 1 MB."""


class _Znode(msgspec.Struct):
    path: str


def no_snapshot(path: Path) -> SnapshotError:
    """Return the error for a path without a manifest: missing, empty, a dump, or something else."""
    if path.is_dir():
        return _of_directory(path)
    if not path.exists():
        return SnapshotError(f"{path} does not exist.", hint=MAKE_ONE)
    if (path.parent / MANIFEST).exists() and path.suffix in (".json", ".parquet"):
        return SnapshotError(f"{path} is part of a snapshot.", hint=f"Use {path.parent}.")
    return _of_file(path)


def _of_directory(path: Path) -> SnapshotError:
    try:
        entries = sorted(path.iterdir())
    except OSError as exc:
        return SnapshotError(f"{path} cannot be read: {exc.strerror}.")
    if not entries:
        return SnapshotError(f"{path} is an empty directory, not a snapshot.", hint=MAKE_ONE)
    within = [entry for entry in entries if (entry / MANIFEST).exists()]
    if within:
        return SnapshotError(
            f"{path} is not a snapshot but a directory of {pluralize(len(within), 'snapshot')}.",
            hint=f"Specify one of them, for example {within[-1]}.",
        )
    return SnapshotError(f"{path} is not a snapshot: it has no {MANIFEST}.", hint=MAKE_ONE)


def _of_file(path: Path) -> SnapshotError:
    try:
        with path.open("rb") as lines:
            line = lines.readline(_MAX_LINE)
    except OSError as exc:
        return SnapshotError(f"{path} cannot be read: {exc.strerror}.")
    if not line:
        return SnapshotError(f"{path} is an empty file, not a snapshot.", hint=MAKE_ONE)
    try:
        msgspec.json.decode(line, type=_Znode)
    except msgspec.ValidationError:
        found = "a ZooKeeper dump: its line 1 has no znode path"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = "a ZooKeeper dump: its line 1 is not JSON"
    else:
        dump, out = shlex.quote(str(path)), shlex.quote(path.stem)
        return SnapshotError(
            f"{path} is a ZooKeeper dump, not a snapshot.",
            hint=f"Convert it with `trimtab import-zk {dump} --out {out}`, then use {out}.",
        )
    return SnapshotError(f"{path} is not a snapshot but {found}.", hint=MAKE_ONE)

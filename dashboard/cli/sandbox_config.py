"""The configuration that a sandbox writes: it points at the sandbox while that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.errors import ConfigError
from core.files import make_private, write_whole
from dashboard.cli.options import MAX_PORT

PERIOD_S: Final = 10.0
"""Seconds between two snapshots of a sandbox."""

_FIRST_LINE: Final = "# Written by a running sandbox; invalid after the sandbox ends."
_EARLIER_LINE: Final = "# Points at the sandbox that wrote it; worthless once that has ended."
"""The first line up to version 1.0, still recognized in a state directory."""
SECTION: Final = "[[clusters]]"
"""Begins the lines of a cluster."""


def write_sandbox_config(
    path: Path, sections: Sequence[str], state_dir: Path, minute_s: float = 60.0
) -> None:
    """Write a configuration of sandboxes; it appears whole or not at all.

    Args:
        path: Of the file.
        sections: Lines of each cluster.
        state_dir: Folder of snapshots, history and journal.
        minute_s: Seconds that count as a minute of the clusters' settings.
    """
    head = [
        _FIRST_LINE,
        f"state_dir = {json.dumps(str(state_dir))}",
        f"collect_every_s = {PERIOD_S}",
        "",
    ]
    if minute_s != 60.0:  # a minute as it is
        head += ["[history]", f"minute_s = {minute_s:g}", ""]
    make_private(path.parent)
    write_whole(path, ("\n".join(head) + "\n" + "\n".join(sections)).encode())


def sections_of(path: Path) -> str:
    """Return the lines of the clusters in a configuration that a sandbox wrote."""
    _, mark, rest = path.read_text(encoding="utf-8").partition(SECTION)
    return mark + rest


def clear_own_config(path: Path) -> None:
    """Remove the files of an earlier demo.

    Raises:
        ConfigError: A demo did not write it: it may point at real clusters.
    """
    if not path.exists():
        return
    if not path.read_text(encoding="utf-8", errors="replace").startswith(
        (_FIRST_LINE, _EARLIER_LINE)
    ):
        raise ConfigError(
            f"{path} was not written by the demo and would be overwritten.",
            hint="Pass another --state-dir.",
        )
    path.unlink()


_LOCAL: Final = re.compile(r"(?:127(?:\.[0-9]{1,3}){3}|localhost):[0-9]{1,5}")


def former_addresses(path: Path | None, part: str) -> list[str]:
    """Return the ``host:port`` of an earlier run of a sandbox; empty if unknown.

    Args:
        path: Configuration that it wrote; ``None``: it writes none.
        part: Of its servers, as :func:`save_addresses` has them.
    """
    if path is None:
        return []
    try:
        found = json.loads(_addresses_file(path).read_bytes())[part]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    is_known = isinstance(found, list) and all(
        isinstance(one, str) and _LOCAL.fullmatch(one) and int(one.rpartition(":")[2]) <= MAX_PORT
        for one in found
    )
    return found if is_known else []


def save_addresses(path: Path, **parts: Sequence[str]) -> None:
    """Save the addresses of a sandbox, so that its next run takes them again.

    Args:
        path: Configuration that it writes; the addresses are in a file next to it.
        parts: By servers: ``host:port`` of each.
    """
    write_whole(_addresses_file(path), json.dumps(parts).encode(), is_durable=False)


def _addresses_file(path: Path) -> Path:
    return path.with_suffix(".addresses.json")

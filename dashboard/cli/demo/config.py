"""The configuration that a sandbox writes: it points at itself, and is worthless without it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.errors import ConfigError
from dashboard import services
from dashboard.services import pegasus

if TYPE_CHECKING:
    from dashboard.services.pegasus import RunningPegasus
    from dashboard.services.sandbox import RunningFleet

PERIOD_S: Final = 10.0
"""Seconds between two snapshots of a sandbox."""

_WRITTEN_BY_US: Final = "# Points at the sandbox that wrote it; worthless once that has ended."
_SECTION: Final = "[[clusters]]"


def pulsar_section(fleet: RunningFleet) -> str:
    """Return the lines of a Pulsar sandbox."""
    lines = [
        _SECTION,
        f"name = {json.dumps(services.SANDBOX_NAME)}",
        'environment = "demo"',
        "read_only = false",
        f"zookeeper = {json.dumps(fleet.zookeeper)}",
        f"admin_urls = {json.dumps(fleet.admin_urls)}",
        "prometheus = { scrape = true, sample_s = 0.5 }",
    ]
    return "\n".join(lines) + "\n"


def pegasus_section(cluster: RunningPegasus) -> str:
    """Return the lines of a Pegasus sandbox."""
    lines = [
        _SECTION,
        f"name = {json.dumps(pegasus.SANDBOX_NAME)}",
        'kind = "pegasus"',
        'environment = "demo"',
        "read_only = false",
        f"meta_servers = {json.dumps(cluster.meta_servers)}",
    ]
    return "\n".join(lines) + "\n"


def write_config(
    path: Path, sections: Sequence[str], state_dir: Path, minute_s: float = 60.0
) -> None:
    """Write a configuration of sandboxes; it appears whole or not at all.

    Args:
        path: Of the file.
        sections: Lines of each cluster.
        state_dir: Where snapshots, history and journal are kept.
        minute_s: Seconds that count as a minute of the clusters' settings.
    """
    head = [
        _WRITTEN_BY_US,
        f"state_dir = {json.dumps(str(state_dir))}",
        f"collect_every_s = {PERIOD_S}",
        "",
    ]
    if minute_s != 60.0:  # a minute as it is
        head += ["[history]", f"minute_s = {minute_s:g}", ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".partial")
    aside.write_text("\n".join(head) + "\n" + "\n".join(sections), encoding="utf-8")
    aside.replace(path)


def sections_of(path: Path) -> str:
    """Return the lines of the clusters in a configuration that a sandbox wrote."""
    _, mark, rest = path.read_text(encoding="utf-8").partition(_SECTION)
    return mark + rest


def clear_own_config(path: Path) -> None:
    """Remove what an earlier demo wrote.

    Raises:
        ConfigError: Somebody else wrote it: it may point at real clusters.
    """
    if not path.exists():
        return
    if not path.read_text(encoding="utf-8", errors="replace").startswith(_WRITTEN_BY_US):
        raise ConfigError(
            f"{path} is not the demo's own: it would be overwritten.",
            hint="Name another --state-dir.",
        )
    path.unlink()

"""Commands that reach Pegasus clusters or run one; clients come from ``services_pegasus``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from core.errors import UnknownNameError
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.store import load_manifest
from dashboard.cli.config import read_config
from dashboard.cli.output import note
from dashboard.cli.source import check_kind
from dashboard.services import pegasus

PEGASUS: Final = "pegasus"


def pegasus_snapshot(source: str, config: Path | None) -> PegasusSnapshot:
    """Return the snapshot in a directory, or a fresh one of a cluster of the configuration.

    Raises:
        SnapshotError: The directory holds none of Pegasus.
        UnknownNameError: There is neither such a directory nor such a cluster.
        UsageFaultError: The cluster or snapshot is of another system.
        RemoteError: It cannot be read.
    """
    if Path(source).is_dir():
        check_kind(source, load_manifest(Path(source))[1].kind, PEGASUS)
        return load_pegasus_snapshot(Path(source))
    loaded = read_config(config)
    names = [one.name for one in loaded.clusters if one.kind == PEGASUS]
    if source not in names:
        if source in [one.name for one in loaded.clusters]:
            check_kind(source, loaded.cluster(source).kind, PEGASUS)
        raise UnknownNameError.of(
            "snapshot directory or Pegasus cluster", source, names, place="the configuration"
        )
    return pegasus.capture(loaded.cluster(source))


def note_problems(snapshot: PegasusSnapshot) -> None:
    """Say what could not be read, on standard error."""
    for problem in snapshot.manifest.problems:
        note(f"{problem.severity}: {problem.place}: {problem.what} {problem.done}".rstrip())

"""Commands that reach Pegasus clusters or run one; clients come from ``services_pegasus``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.store import load_manifest
from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.output import note
from dashboard.cli.source import check_kind, current_snapshot, is_path, labeled, unknown_source

PEGASUS: Final = "pegasus"


def pegasus_snapshot(source: str, config: Path | None) -> PegasusSnapshot:
    """Return the snapshot in a directory, or a fresh one of a cluster of the configuration.

    Raises:
        SnapshotError: The directory holds none of Pegasus.
        UnknownNameError: There is neither such a directory nor such a cluster.
        UsageFaultError: The cluster or snapshot is of another system.
        RemoteError: It cannot be read.
    """
    if is_path(source):
        check_kind(source, load_manifest(Path(source))[1].kind, PEGASUS)
        return load_pegasus_snapshot(Path(source))
    loaded = read_config(config)
    names = [one.name for one in loaded.clusters if one.kind == PEGASUS]
    if source not in names:
        if source in [one.name for one in loaded.clusters]:
            check_kind(source, loaded.cluster(source).kind, PEGASUS)
        raise unknown_source(source, names, "Pegasus cluster")
    cluster = loaded.cluster(source)
    return labeled(cluster, cast("PegasusSnapshot", current_snapshot(loaded, cluster)))


def earlier_of(source: str, snapshot: PegasusSnapshot, config: Path | None) -> list[Any]:
    """Return saved snapshots of a cluster before this one, which show persistence.

    Args:
        source: What was named; of a directory there are none.
        snapshot: The one of now.
        config: The configuration.
    """
    if is_path(source):
        return []
    return list(services.earlier_snapshots(read_config(config), snapshot))


def note_problems(snapshot: PegasusSnapshot) -> None:
    """Print the parts that could not be read, on standard error."""
    for problem in snapshot.manifest.problems:
        note(problem.sentence)

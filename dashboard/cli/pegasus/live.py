"""Commands that reach Pegasus clusters or run one; clients come from ``services_pegasus``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from core.errors import UnknownNameError
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from dashboard.cli.config import read_config
from dashboard.cli.output import (
    UsageFaultError,
    note,
)
from dashboard.services import pegasus

PEGASUS: Final = "pegasus"


def pegasus_snapshot(source: str, config: Path | None) -> PegasusSnapshot:
    """Return the snapshot in a directory, or a fresh one of a cluster of the configuration.

    Raises:
        SnapshotError: The directory holds none of Pegasus.
        UnknownNameError: There is neither such a directory nor such a cluster.
        UsageFaultError: The cluster is none of Pegasus.
        RemoteError: It cannot be read.
    """
    if Path(source).is_dir():
        return load_pegasus_snapshot(Path(source))
    loaded = read_config(config)
    names = [one.name for one in loaded.clusters if one.kind == PEGASUS]
    if source not in names:
        if source in [one.name for one in loaded.clusters]:
            raise UsageFaultError(
                f"{source} is no Pegasus cluster.",
                hint="Commands without the word pegasus read it.",
            )
        raise UnknownNameError.of(
            "snapshot directory or Pegasus cluster", source, names, place="the configuration"
        )
    return pegasus.capture(loaded.cluster(source))


def note_problems(snapshot: PegasusSnapshot) -> None:
    """Say what could not be read, on standard error."""
    for problem in snapshot.manifest.problems:
        note(f"{problem.severity}: {problem.place}: {problem.what} {problem.done}".rstrip())

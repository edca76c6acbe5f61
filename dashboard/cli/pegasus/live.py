"""Commands that reach Pegasus clusters or run one; clients come from ``services_pegasus``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.errors import UnknownNameError
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.store import CachedSnapshot, save_snapshot
from dashboard import services
from dashboard.cli import answers
from dashboard.cli.output import (
    Answer,
    UsageFaultError,
    emit,
    note,
    say,
)
from dashboard.services import pegasus

PEGASUS: Final = "pegasus"


def capture_pegasus(
    cluster: services.Cluster, out: Path, topics_of: Sequence[str], *, as_json: bool
) -> int:
    """``trimtab capture`` of a Pegasus cluster."""
    if topics_of:
        raise UsageFaultError(
            f"{cluster.name} is a Pegasus cluster: it has no topics.", hint="Leave out --topics-of."
        )
    snapshot = pegasus.capture(cluster)
    save_snapshot(snapshot, out)

    def show() -> None:
        counts = ", ".join(
            f"{table.num_rows} {name}" for name, table in snapshot.tables.items() if table.num_rows
        )
        say(f"{out}: {counts or 'nothing'} of {snapshot.manifest.cluster}.")
        note_problems(snapshot)

    return emit(Answer(answers.captured(snapshot, out), show), as_json=as_json)


def keep_pegasus(config: services.Config, cluster: services.Cluster) -> CachedSnapshot:
    """Put a fresh snapshot of a Pegasus cluster on the shelf."""
    snapshot = pegasus.capture(cluster)
    return services.shelf(config).put(snapshot, config.keep.retention())


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
    loaded = services.load_config(services.config_path(config))
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

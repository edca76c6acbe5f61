"""What commands of Pulsar read that take a cluster or a snapshot."""

from __future__ import annotations

from pathlib import Path

from core.errors import UnknownNameError
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from dashboard import services
from dashboard.cli_output import UsageFaultError


def pulsar_snapshot(source: str, config: Path | None) -> PulsarSnapshot:
    """Return the snapshot in a directory, or a fresh one of a cluster of the configuration.

    Raises:
        SnapshotError: The directory holds none of Pulsar.
        UnknownNameError: There is neither such a directory nor such a cluster.
        UsageFaultError: The cluster is none of Pulsar.
        RemoteError: It cannot be read.
    """
    if Path(source).is_dir():
        return load_snapshot(Path(source))
    loaded = services.load_config(services.config_path(config))
    names = [one.name for one in loaded.clusters if one.kind == "pulsar"]
    if source not in names:
        if source in [one.name for one in loaded.clusters]:
            raise UsageFaultError(
                f"{source} is no Pulsar cluster.", hint="See `trimtab pegasus --help`."
            )
        raise UnknownNameError.of(
            "snapshot directory or Pulsar cluster", source, names, place="the configuration"
        )
    return services.capture(loaded.cluster(source))

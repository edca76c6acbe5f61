"""What commands of Pulsar read that take a cluster or a snapshot."""

from __future__ import annotations

from pathlib import Path

from core.errors import UnknownNameError
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from dashboard import services
from dashboard.cli.output import UsageFaultError


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
    return services.capture(pulsar_cluster(loaded, source, "snapshot directory or Pulsar cluster"))


def pulsar_cluster(
    config: services.Config, name: str, what: str = "Pulsar cluster"
) -> services.Cluster:
    """Return a Pulsar cluster of the configuration.

    Args:
        config: The configuration.
        name: Of the cluster.
        what: It is called where there is none of that name.
    Raises:
        UnknownNameError: There is none; near names are those of Pulsar clusters only.
        UsageFaultError: It is a cluster of another system.
    """
    names = [one.name for one in config.clusters if one.kind == "pulsar"]
    if name in names:
        return config.cluster(name)
    if name in [one.name for one in config.clusters]:
        raise UsageFaultError(f"{name} is no Pulsar cluster.", hint="See `trimtab pegasus --help`.")
    raise UnknownNameError.of(what, name, names, place="the configuration")

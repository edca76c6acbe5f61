"""Sources of commands on Pulsar clusters: a cluster or a snapshot, and the active settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from core.errors import UnknownNameError
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_manifest, load_snapshot
from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.output import warn
from dashboard.cli.source import (
    check_kind,
    current_snapshot,
    directory_of,
    is_path,
    labeled,
    unknown_source,
)
from dashboard.services import pulsar
from dashboard.systems import FIRST

Snapshot = Annotated[
    Path,
    typer.Argument(
        metavar="CLUSTER-or-SNAPSHOT",
        help="Cluster name, or snapshot directory.",
    ),
]
"""A source, of which :func:`pulsar_directory` is the snapshot."""


def pulsar_directory(named: Path, config: Path | None) -> Path:
    """Return the directory of the snapshot of a Pulsar cluster, until the command ends."""
    return directory_of(named, config, FIRST)


def pulsar_snapshot(source: str, config: Path | None) -> PulsarSnapshot:
    """Return the snapshot in a directory, or a fresh one of a cluster of the configuration.

    Raises:
        SnapshotError: The directory holds none of Pulsar.
        UnknownNameError: There is neither such a directory nor such a cluster.
        UsageFaultError: The cluster or snapshot is of another system.
        RemoteError: It cannot be read.
    """
    if is_path(source):
        check_kind(source, load_manifest(Path(source))[1].kind, FIRST)
        return load_snapshot(Path(source))
    loaded = read_config(config)
    if source not in [one.name for one in loaded.clusters]:
        names = [one.name for one in loaded.clusters if one.kind == FIRST]
        raise unknown_source(source, names, "Pulsar cluster")
    cluster = pulsar_cluster(loaded, source)
    snapshot: PulsarSnapshot = current_snapshot(loaded, cluster, pulsar.capture)
    return labeled(cluster, snapshot)


def pulsar_cluster(config: services.Config, name: str) -> services.Cluster:
    """Return a Pulsar cluster of the configuration.

    Args:
        config: The configuration.
        name: Of the cluster.
    Raises:
        UnknownNameError: There is none; near names are those of Pulsar clusters only.
        UsageFaultError: It is a cluster of another system.
    """
    names = [cluster.name for cluster in config.clusters if cluster.kind == "pulsar"]
    if name in names:
        return config.cluster(name)
    if name in [cluster.name for cluster in config.clusters]:
        check_kind(name, config.cluster(name).kind, FIRST)
    raise UnknownNameError.of("Pulsar cluster", name, names, place="the configuration")


def active_settings(
    snapshot: PulsarSnapshot,
    overrides: Mapping[str, object] | None = None,
    release: str | None = None,
) -> EffectiveSettings:
    """Return the settings of a cluster, and warn of an unknown release and of dead values.

    Args:
        snapshot: The cluster.
        overrides: ``{key: value}`` to assume.
        release: Line or version to assume; ``None``: the brokers' own.

    Raises:
        UnknownNameError: A release or an override that does not exist.
        InputError: An override of the wrong type.
    """
    settings = effective_settings(snapshot, overrides=overrides, release=release)
    for sentence in settings.release_warnings:
        warn(sentence)
    return settings

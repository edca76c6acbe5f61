"""Sources of commands: a cluster or a snapshot, and the active settings."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from typer._click.globals import get_current_context

from core.errors import UnknownNameError
from core.labels import labels_of
from core.snapshot.misfit import MAKE_ONE
from core.snapshot.store import Storable, load_manifest, save_snapshot
from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.config import systems as known_systems
from dashboard.cli.output import LABELS, UsageFaultError
from dashboard.cli.progress import STATUS
from dashboard.cli.served import SERVED, newest_of
from dashboard.services import fleet_views
from dashboard.services.access import command_identity
from dashboard.systems import SYSTEMS

Taken = TypeVar("Taken")

_CAPTURED: Final[set[Path]] = set()
"""Directories of the snapshots that were taken for this command."""


def is_captured(directory: Path) -> bool:
    """Return whether the snapshot of a directory was taken for this command."""
    return directory in _CAPTURED or SERVED.get() is not None


@contextlib.contextmanager
def snapshot_directories(
    sources: Sequence[str], config: Path | None, kind: str = ""
) -> Iterator[list[Path]]:
    """Yield the directory of each snapshot; of a cluster, one with a fresh snapshot.

    Args:
        sources: Snapshot directories, and names of clusters of the configuration.
        config: The configuration; ``None``: the usual one.
        kind: System that the clusters must be of; empty: any.

    Raises:
        UnknownNameError: There is neither such a directory nor such a cluster.
        UsageFaultError: A cluster is of another system.
        RemoteError: A cluster cannot be read.
    """
    with contextlib.ExitStack() as stack:
        directories = []
        for source in sources:
            directory = Path(source)
            if SERVED.get() is not None:
                directory = _saved_directory(source, config, kind)
            elif not is_path(source):
                parent = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-")))
                directory = parent / source
                save_snapshot(_captured(source, config, kind), directory)
                _CAPTURED.add(directory)
            elif kind:
                check_kind(source, load_manifest(directory)[1].kind, kind)
            directories.append(directory)
        yield directories


def single_source(source: str, config: Path | None) -> str:
    """Return a directory or cluster, or the only cluster of a group, tag or saved view.

    Raises:
        UnknownNameError: There is none of that name, or it has no cluster.
        UsageFaultError: It has several clusters.
    """
    sources = list(spelled_out([source], config, ""))
    if len(sources) > 1:
        raise _several(source, len(sources))
    return sources[0]


def _several(source: object, count: int) -> UsageFaultError:
    return UsageFaultError(
        f"{source} has {count} clusters; this command reads one.", hint="Name one of them."
    )


def spelled_out(sources: Sequence[str], config: Path | None, kind: str) -> Iterator[str]:
    """Yield the sources, with the clusters of each group, tag or saved view.

    Raises:
        UnknownNameError: There is none of that name, or it has no cluster of the system.
    """
    for source in sources:
        if not fleet_views.is_selection(source) or Path(source).exists():
            yield source
            continue
        loaded = read_config(config)
        found = fleet_views.selected(loaded, source, command_identity(loaded))
        names = [one.name for one in found if kind in ("", one.kind)]
        if not names:
            what = f"{kind.capitalize()} cluster".strip()
            known = [one.name for one in loaded.clusters if kind in ("", one.kind)]
            hint = UnknownNameError.of(what, source, known).hint
            raise UnknownNameError(f"{source} has no {what}.", hint=hint)
        yield from names


def is_path(source: str) -> bool:
    """Return whether a person named a path: it is there, or no cluster has such a name."""
    return SERVED.get() is None and (os.sep in source or Path(source).exists())


def kind_of(source: str, config: Path | None) -> str:
    """Return the kind of the cluster of a snapshot directory, or of a configured cluster.

    Args:
        source: Directory, or name of the cluster.
        config: What ``--config`` says.
    Returns:
        Empty: it is neither.
    Raises:
        SnapshotError: The directory holds no snapshot.
        ConfigError: The configuration cannot be read.
    """
    if is_path(source):
        return load_manifest(Path(source))[1].kind
    return next((one.kind for one in read_config(config).clusters if one.name == source), "")


def unknown_source(name: str, clusters: Iterable[str], what: str = "cluster") -> UnknownNameError:
    """Return the error for a source that is neither a path nor a cluster.

    Args:
        name: What a person named.
        clusters: Names of the configuration.
        what: Kind of cluster that is sought.
    """
    near = UnknownNameError.of(what, name, clusters).hint
    return UnknownNameError(
        f"{name} is not a snapshot directory and not a {what} in the configuration.",
        hint=near or MAKE_ONE,
    )


def check_kind(name: str, found: str, wanted: str) -> None:
    """Refuse a cluster or snapshot of another system than a command reads.

    Raises:
        UsageFaultError: With the place of the commands for its system.
    """
    if found != wanted:
        raise UsageFaultError(
            f"{name} is a {found.capitalize()} cluster; this command reads "
            f"{wanted.capitalize()} clusters.",
            hint=SYSTEMS[found].help
            if found in SYSTEMS
            else "`trimtab --help` lists the commands.",
        )


def _captured(name: str, config: Path | None, kind: str) -> Storable:
    loaded, cluster = _cluster(name, config, kind)
    STATUS.start(f"trimtab: reading {name}")
    return labeled(cluster, services.snapshot_of(loaded, cluster))


def _saved_directory(name: str, config: Path | None, kind: str) -> Path:
    """Return the directory of the newest saved snapshot of a cluster."""
    loaded, cluster = _cluster(name, config, kind)
    labeled(cluster, current_snapshot(loaded, cluster))
    return newest_of(loaded, cluster).path


def _cluster(name: str, config: Path | None, kind: str) -> tuple[services.Config, services.Cluster]:
    """Return the configuration and one of its clusters.

    Raises:
        UnknownNameError: There is no such cluster.
        UsageFaultError: It is of another system.
    """
    loaded = read_config(config)
    names = [one.name for one in loaded.clusters]
    if name not in names:
        raise unknown_source(name, names)
    cluster = loaded.cluster(name)
    if kind:
        check_kind(name, cluster.kind, kind)
    return loaded, cluster


def current_snapshot(
    config: services.Config,
    cluster: services.Cluster,
    capture: Callable[[services.Cluster], Any] | None = None,
) -> Any:
    """Return a fresh snapshot of a cluster; for a caller of the HTTP interface the newest saved.

    Args:
        config: The configuration.
        cluster: The cluster.
        capture: Reads it; by default as the collector does.
    Raises:
        RemoteError: The cluster cannot be read.
        IncompleteSnapshotError: It has no saved one.
    """
    if SERVED.get() is None:
        return services.snapshot_of(config, cluster) if capture is None else capture(cluster)
    return services.system_of(config, cluster).record.load(newest_of(config, cluster).path)


def labeled(cluster: services.Cluster, snapshot: Taken) -> Taken:
    """Return a snapshot, after the labels of its cluster were noted for tables."""
    if cluster.labels:
        systems = {system.name: system for system in known_systems()}
        LABELS.set(labels_of(cluster.labels, systems[cluster.kind].servers(snapshot)))
    return snapshot


def directory_of(named: Path, config: Path | None, kind: str = "") -> Path:
    """Return the directory of the snapshot that an argument names, until the command ends.

    Reading a cluster takes seconds: check the other arguments first.

    Args:
        named: Directory, cluster, or a group, tag or view of one cluster.
        config: The configuration; ``None``: the usual one.
        kind: System that the cluster must be of; empty: any.
    Raises:
        UsageFaultError: A group, tag or view has several clusters.
    """
    sources = list(spelled_out([str(named)], config, kind))
    if len(sources) > 1:
        raise _several(named, len(sources))
    directories = snapshot_directories(sources, config, kind)
    paths: list[Path] = get_current_context().with_resource(directories)
    return paths[0]

"""What commands read: a cluster or a snapshot, and the settings in effect."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from core.errors import UnknownNameError
from core.snapshot.store import Storable, save_snapshot
from dashboard import services
from dashboard.cli.config import read_config

_MAKE_ONE: Final = (
    "Make a snapshot with `trimtab capture CLUSTER --out DIR` or `trimtab import-zk`."
)


@contextlib.contextmanager
def snapshot_directories(sources: Sequence[str], config: Path | None) -> Iterator[list[Path]]:
    """Give the directory of each snapshot; of a cluster, one with a fresh snapshot.

    Args:
        sources: Snapshot directories, and names of clusters of the configuration.
        config: The configuration; ``None``: the usual one.

    Raises:
        UnknownNameError: There is neither such a directory nor such a cluster.
        RemoteError: A cluster cannot be read.
    """
    with contextlib.ExitStack() as stack:
        directories = []
        for source in sources:
            directory = Path(source)
            if not directory.exists() and os.sep not in source:
                parent = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-")))
                directory = parent / source
                save_snapshot(_captured(source, config), directory)
            directories.append(directory)
        yield directories


def _captured(name: str, config: Path | None) -> Storable:
    loaded = read_config(config)
    names = [one.name for one in loaded.clusters]
    if name not in names:
        unknown = UnknownNameError.of(
            "snapshot directory or cluster", name, names, place="the configuration"
        )
        unknown.hint = unknown.hint or _MAKE_ONE
        raise unknown
    return services.snapshot_of(loaded, loaded.cluster(name))


def _directory(context: typer.Context, named: Path) -> Path:
    return _directories(context, [named])[0]


def _directories(context: typer.Context, named: list[Path]) -> list[Path]:
    if context.resilient_parsing:  # only completed
        return named
    given = snapshot_directories(list(map(str, named)), context.params.get("config"))
    found: list[Path] = context.with_resource(given)
    return found


Snapshot = Annotated[
    Path,
    typer.Argument(
        metavar="CLUSTER-or-SNAPSHOT",
        help="Cluster name, or snapshot directory.",
        callback=_directory,
    ),
]
Snapshots = Annotated[
    list[Path],
    typer.Argument(
        metavar="CLUSTER-or-SNAPSHOT...",
        help="Cluster names, or snapshot directories; several give one answer per cluster.",
        callback=_directories,
    ),
]

"""The composition root's part for saved views of the fleet; see :mod:`dashboard.services`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.access import Identity
from core.errors import UnknownNameError
from core.fleet_views import FleetView, clusters_of
from dashboard import services

if TYPE_CHECKING:
    from connectors.journal.fleet_views import FleetViewStore
    from dashboard.services import Cluster, Config

GROUP, TAG, VIEW = "group:", "tag:", "view:"
"""Begin what a command takes instead of the name of a cluster."""


def views(config: Config, identity: Identity) -> dict[str, FleetView]:
    """Return the saved views of a person by name.

    Raises:
        RemoteError: The journal's database cannot be read.
    """
    return _store(config).views(_owner(identity))


def save_view(config: Config, identity: Identity, name: str, view: FleetView) -> None:
    """Save a view of a person; one of the same name is replaced.

    Raises:
        InputError: The name cannot be one, or the person has too many views.
        RemoteError: The journal's database cannot be written.
    """
    _store(config).save(_owner(identity), name, view)


def delete_view(config: Config, identity: Identity, name: str) -> None:
    """Delete a view of a person.

    Raises:
        RemoteError: The journal's database cannot be written.
    """
    _store(config).delete(_owner(identity), name)


def _store(config: Config) -> FleetViewStore:
    from connectors.journal.fleet_views import (  # noqa: PLC0415  # commands must start fast
        FleetViewStore,
    )

    return FleetViewStore(services.journal(config).database)


def _owner(identity: Identity) -> str:
    """Return the owner of an identity's views: pages and commands of one local user share them."""
    return identity.subject or identity.name.removeprefix("dashboard/")


def is_selection(source: str) -> bool:
    """Return whether a command's argument names several clusters."""
    return source.startswith((GROUP, TAG, VIEW))


def selected(config: Config, source: str, identity: Identity) -> list[Cluster]:
    """Return the clusters of a group, tag or saved view.

    Args:
        config: The configuration.
        source: ``group:NAME``, ``tag:NAME`` or ``view:NAME``.
        identity: Whose views count.
    Raises:
        UnknownNameError: There is none of that name.
        RemoteError: The views cannot be read.
    """
    kind, _, name = source.partition(":")
    if kind == "view":
        known = views(config, identity)
        view = known.get(name)
        names = list(known)
    else:
        view = FleetView(group=name) if kind == "group" else FleetView(tag=name)
        names = sorted(
            {cluster.group for cluster in config.clusters} - {""}
            if kind == "group"
            else {tag for cluster in config.clusters for tag in cluster.tags}
        )
        view = view if name in names else None
    if view is None:
        raise UnknownNameError.of(kind, name, names)
    return clusters_of(view, config.clusters)

"""Clusters over HTTP, with their newest snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from starlette.responses import Response

from dashboard import services
from dashboard.api.resource import Call, NothingAsked, Resource, json_response
from dashboard.api.schema import object_schema
from dashboard.queries.snapshots import saved_snapshots


class ClusterJson(TypedDict):
    """A cluster.

    Attributes:
        name: As configured.
        kind: Its system.
        environment: As configured.
        group: As configured.
        tags: As configured.
        snapshot_id: Of the newest saved snapshot; null: none.
        taken_at: Its time.
    """

    name: str
    kind: str
    environment: str
    group: str
    tags: list[str]
    snapshot_id: str | None
    taken_at: str | None


class ClustersJson(TypedDict):
    """All clusters that the user may view."""

    clusters: list[ClusterJson]


def resources() -> Iterator[Resource]:
    """Yield the resources."""
    yield Resource(
        path="clusters",
        name="clusters",
        summary="List the clusters, with the newest snapshot of each.",
        answer=object_schema(ClustersJson),
        respond=_clusters,
        errors=(400,),
    )


def _clusters(call: Call, _: NothingAsked) -> Response:
    found: ClustersJson = {"clusters": [_cluster(call, one) for one in call.config.clusters]}
    return json_response(found)


def _cluster(call: Call, cluster: services.Cluster) -> ClusterJson:
    newest = saved_snapshots(services.snapshot_store(call.config), cluster.name).latest
    return {
        "name": cluster.name,
        "kind": cluster.kind,
        "environment": cluster.environment,
        "group": cluster.group,
        "tags": list(cluster.tags),
        "snapshot_id": None if newest is None else newest.snapshot_id,
        "taken_at": None if newest is None else newest.taken_at.isoformat(),
    }

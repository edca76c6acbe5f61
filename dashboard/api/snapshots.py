"""Clusters, their saved snapshots and their recorded history over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, TypedDict

from starlette.responses import Response

from core.errors import InputError, UnknownNameError
from core.history.queries.compared import compare
from core.history.queries.load import LoadRequest, load_over, subject_id
from core.history.store.reading import TimeRange
from core.history.tiers.model import CLUSTER_KIND
from core.request import Annotated, Request, param
from core.snapshot.store import CachedSnapshot, load_manifest, read_table
from core.units import datetime_to_ms
from dashboard import services
from dashboard.api.operations import (
    CLUSTER,
    SNAPSHOT_HEADERS,
    newest,
    of_snapshot,
    tags,
    unchanged,
)
from dashboard.api.resource import ARROW, ROOT, Call, NoParameters, Resource, json_response, missing
from dashboard.api.schema import INTEGER, TEXT, object_schema
from dashboard.api.tables import MAX_ROWS, ROWS, check_rows, table_response
from dashboard.cli import answers
from dashboard.cli.history.moments import moment
from dashboard.queries.snapshots import saved_snapshots
from dashboard.services.fleet_days import facts_of, targets_of
from dashboard.services.growth import growth_of
from dashboard.services.history import history
from trimtab.bodies import ClusterJson, SnapshotJson

_TEXTS: Final = {"type": "array", "items": TEXT}


class ClustersJson(TypedDict):
    """All clusters that the user may view."""

    clusters: list[ClusterJson]


class SnapshotsJson(TypedDict):
    """The saved snapshots of a cluster.

    Attributes:
        cluster: Its name.
        snapshots: Oldest first.
    """

    cluster: str
    snapshots: list[SnapshotJson]


class WholeSnapshotJson(TypedDict):
    """What a snapshot has.

    Attributes:
        snapshot_id: Hash of its content.
        cluster: Of which cluster.
        taken_at: When the reading ended.
        load_manager: Which load manager the brokers run; empty or unknown for other systems.
        release: Version of the servers; null: unknown.
        tables: Rows, expected rows, coverage and source of each table.
        problems: What could not be read.
        unavailable: What this source does not have, in words.
    """

    snapshot_id: str
    cluster: str
    taken_at: str
    load_manager: str
    release: str | None
    tables: dict[str, dict[str, Any]]
    problems: list[dict[str, str]]
    unavailable: list[str]


class HistoryRequest(Request, frozen=True, kw_only=True):
    """Rows of one kind in a range of time."""

    kind: Annotated[str, param("Kind of rows, such as minutes, events, brokers or bundle_loads")]
    start: Annotated[str, param("Start: ISO 8601 (UTC), or -2h for two hours ago")] = "-1h"
    end: Annotated[str, param("End: ISO 8601 (UTC), -2h or now")] = "now"
    columns: Annotated[tuple[str, ...], param("Only these columns. Repeatable")] = ()


class LoadOverTimeRequest(Request, frozen=True, kw_only=True):
    """Load of one object over time."""

    kind: Annotated[
        str, param("cluster, broker, bundle, namespace, tenant, node, table or partition")
    ] = CLUSTER_KIND
    name: Annotated[str, param("Name of the object; none for the cluster")] = ""
    start: Annotated[str, param("Start: ISO 8601 (UTC), or -90d for 90 days ago")] = "-30d"
    end: Annotated[str, param("End: ISO 8601 (UTC), -2h or now")] = "now"
    by: Annotated[
        Literal["", "minutes", "hours", "days"],
        param("Records that answer; none: the coarsest that answer the range"),
    ] = ""
    compare: Annotated[
        Literal["", "week", "month", "quarter"],
        param("Compare with the same time a week, 28 or 91 days before"),
    ] = ""


class GrowthRequest(Request, frozen=True, kw_only=True):
    """What grows, and when the cluster is full."""

    start: Annotated[str, param("Start: ISO 8601 (UTC), or -26w for 26 weeks ago")] = "-26w"
    end: Annotated[str, param("End: ISO 8601 (UTC), -2h or now")] = "now"


class FleetDaysRequest(Request, frozen=True, kw_only=True):
    """Facts of the clusters by day."""

    start: Annotated[str, param("Start: ISO 8601 (UTC), or -30d for 30 days ago")] = "-30d"
    end: Annotated[str, param("End: ISO 8601 (UTC), -2h or now")] = "now"


_SNAPSHOT: Final = {"snapshot": "Id of the snapshot, or `latest`."}


_GROUP: Final = "Snapshots and history"


def resources() -> Iterator[Resource]:
    """Yield the resources."""
    yield Resource(
        path="clusters",
        name="clusters",
        group=_GROUP,
        summary="List the clusters, with the newest snapshot of each.",
        answer=object_schema(ClustersJson),
        respond=_clusters,
        errors=(400,),
    )
    yield Resource(
        path="snapshots/{cluster}",
        name="snapshots",
        group=_GROUP,
        summary="List the saved snapshots of a cluster.",
        answer=object_schema(SnapshotsJson),
        respond=_snapshots,
        names=CLUSTER,
        errors=(400, 404),
    )
    yield Resource(
        path="snapshots/{cluster}/{snapshot}",
        name="snapshot",
        group=_GROUP,
        summary="Show a saved snapshot: its tables, and what could not be read.",
        answer=object_schema(WholeSnapshotJson),
        respond=_snapshot,
        names=CLUSTER | _SNAPSHOT,
        headers=SNAPSHOT_HEADERS,
        errors=(400, 404, 409),
        is_of_snapshot=True,
    )
    yield Resource(
        path="snapshots/{cluster}/{snapshot}/{table}",
        name="snapshot_table",
        group=_GROUP,
        summary="Return a table of a saved snapshot.",
        answer={"type": "object", "properties": {"rows": ROWS}, "required": ["rows"]},
        respond=_snapshot_table,
        names=CLUSTER | _SNAPSHOT | {"table": "Name of the table, such as brokers."},
        headers=SNAPSHOT_HEADERS,
        errors=(400, 404, 409),
        is_table=True,
        is_of_snapshot=True,
    )
    yield Resource(
        path="history/{cluster}",
        name="history",
        group=_GROUP,
        summary="Return recorded rows of a cluster in a range of time.",
        details="Times are milliseconds since 1970, UTC. Most kinds have the rows that changed: "
        "`minutes` has the snapshot of each minute.",
        answer={
            "type": "object",
            "properties": {"cluster": TEXT, "kind": TEXT, "problems": _TEXTS, "rows": ROWS},
            "required": ["cluster", "kind", "problems", "rows"],
        },
        respond=_history,
        request=HistoryRequest,
        names=CLUSTER,
        errors=(400, 404, 409, 502),
        is_table=True,
    )

    yield Resource(
        path="history/{cluster}/load",
        name="load_over_time",
        group=_GROUP,
        summary="Return the load of one object over time, up to a year.",
        details="From days, hours or minutes: `source` says which. `taken_at` is the start of the "
        "period, ms. Of a measure, the column of its name is the mean, `_max` the maximum and "
        "`_p95` the 95th percentile. `compared` has each measure now and before.",
        answer={
            "type": "object",
            "properties": {
                **dict.fromkeys(("cluster", "kind", "subject", "source"), TEXT),
                "step_ms": INTEGER,
                "from_finer": INTEGER,
                "hours_not_rolled_up": INTEGER,
                "compared": {"type": "object"},
                "rows": ROWS,
            },
            "required": ["cluster", "kind", "subject", "source", "rows"],
        },
        respond=_load,
        request=LoadOverTimeRequest,
        names=CLUSTER,
        errors=(400, 404, 409, 502),
        is_table=True,
    )

    yield Resource(
        path="history/{cluster}/growth",
        name="growth",
        group=_GROUP,
        summary="Return what grows in a cluster, and when it is full.",
        details="From weekly means of days. `now` and `per_month` of a row are level and slope of "
        "its trend, with an interval of 95%. `full`: mean usage of the servers reaches the limit. "
        "`outside`: the first server leaves the target band if nothing moves. `state` is `date`, "
        "`reached`, `beyond` (two years), `steady` (no trend that leads there) or `unknown`, with "
        "its `reason`.",
        answer={
            "type": "object",
            "properties": {
                **dict.fromkeys(("cluster", "source", "measure"), TEXT),
                **dict.fromkeys(
                    ("start_ms", "end_ms", "weeks", "weeks_missing", "not_rated"), INTEGER
                ),
                "counts": {"type": "array", "items": {"type": "object"}},
                "full": {"type": "object"},
                "outside": {"type": "object"},
                "rows": ROWS,
            },
            "required": ["cluster", "source", "measure", "weeks", "full", "outside", "rows"],
        },
        respond=_growth,
        request=GrowthRequest,
        names=CLUSTER,
        errors=(400, 404, 409, 502),
        is_table=True,
    )

    yield Resource(
        path="fleet/days",
        name="fleet_days",
        group=_GROUP,
        summary="Return deviation, moves and alerts of the clusters by day.",
        details="`outside_minutes` is counted against the `target` of each cluster. "
        "`unhealthy_minutes` are those with a firing critical alert. A day that was not recorded "
        "has no row; null is unknown.",
        answer={
            "type": "object",
            "properties": {"source": TEXT, "rows": ROWS},
            "required": ["source", "rows"],
        },
        respond=_fleet_days,
        request=FleetDaysRequest,
        errors=(400, 502),
        is_table=True,
    )


def _clusters(call: Call, _: NoParameters) -> Response:
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


def _snapshots(call: Call, _: NoParameters) -> Response:
    name = call.cluster.name
    saved = saved_snapshots(services.snapshot_store(call.config), name)
    found: SnapshotsJson = {
        "cluster": name,
        "snapshots": [
            {"snapshot_id": one.snapshot_id, "taken_at": one.taken_at.isoformat()}
            for one in saved.entries
        ],
    }
    return json_response(found)


def _stored(call: Call) -> CachedSnapshot:
    """Return the snapshot that the path names.

    Raises:
        IncompleteSnapshotError: The cluster has none.
        ProblemError: It has none of that id.
    """
    name, wanted = call.cluster.name, call.name("snapshot")
    if wanted == "latest":
        return newest(call, name)
    found = saved_snapshots(services.snapshot_store(call.config), name).find(wanted)
    if found is None:
        error = UnknownNameError(
            f"{name} has no saved snapshot {wanted!r}.",
            hint=f"{ROOT}snapshots/{name} lists them.",
        )
        raise missing(error)
    return found


def _snapshot(call: Call, _: NoParameters) -> Response:
    stored = _stored(call)

    found = {
        "snapshot_id": stored.snapshot_id,
        **answers.manifest(load_manifest(stored.path)[1]),
    }
    return of_snapshot(call, stored, lambda: found)


def _snapshot_table(call: Call, _: NoParameters) -> Response:
    stored, name = _stored(call), call.name("table")
    known = load_manifest(stored.path)[1].tables
    if name not in known:
        raise missing(UnknownNameError.of("table", name, known, place="the snapshot"))
    check_rows(call, known[name].rows)
    headers = tags(stored, "arrow" if call.accepts(ARROW) else "json")
    if (same := unchanged(call, headers)) is not None:
        return same
    return table_response(call, read_table(stored.path, name), {}, headers)


def _history(call: Call, request: HistoryRequest) -> Response:
    cluster = call.cluster.name
    now = services.now()
    start, end = moment(request.start, now), moment(request.end, now)
    if end < start:
        raise InputError(
            f"The range ends ({request.end}) before it begins ({request.start}).",
            hint="Swap start and end.",
        )
    store = history(call.config)
    known = store.location.kinds.names
    if request.kind not in known:
        raise UnknownNameError.of("kind of rows", request.kind, known, place="the history")
    if request.kind == "minutes" and not request.columns:
        rows = store.minutes(cluster, start, end)
    else:
        rows = store.rows(
            request.kind, cluster, start, end, request.columns or None, max_rows=MAX_ROWS
        )
    kinds = list(dict.fromkeys(("minutes", request.kind)))
    problems = [str(one) for one in store.problems(cluster, kinds, start, end, is_deep=False)]
    body = {"cluster": cluster, "kind": request.kind, "problems": problems}
    return table_response(call, rows, body)


def _span(request: LoadOverTimeRequest | GrowthRequest) -> TimeRange:
    """Return the range of a request.

    Raises:
        InputError: A time cannot be read, or the range ends before it begins.
    """
    now = services.now()
    start, end = moment(request.start, now), moment(request.end, now)
    if end < start:
        raise InputError("The range ends before it begins.", hint="Swap start and end.")
    return TimeRange(datetime_to_ms(start), datetime_to_ms(end))


def _load(call: Call, request: LoadOverTimeRequest) -> Response:
    cluster, span = call.cluster.name, _span(request)
    if (request.kind == CLUSTER_KIND) == bool(request.name):
        raise InputError(
            "Only a cluster has no name.", hint="Example: kind=tenant&name=acme, or kind=cluster."
        )
    store = history(call.config)
    question = LoadRequest(
        cluster=cluster,
        kind=request.kind,
        subject=subject_id(store, cluster, request.kind, request.name),
        span=span,
        source=request.by or None,
        is_whole=True,
    )
    if request.compare:
        compared = compare(store, question, request.compare)
        body = {**compared.now.as_json(), "compared": compared.as_json()}
        return table_response(call, compared.now.rows, body)
    found = load_over(store, question)
    return table_response(call, found.rows, found.as_json())


def _growth(call: Call, request: GrowthRequest) -> Response:
    store = history(call.config)
    found = growth_of(call.config, store, call.cluster.name, _span(request))
    return table_response(call, found.rows, found.as_json())


def _fleet_days(call: Call, request: FleetDaysRequest) -> Response:
    now = services.now()
    start, end = moment(request.start, now), moment(request.end, now)
    targets = targets_of(call.config, [one.name for one in call.config.clusters])
    rows = facts_of(call.config, history(call.config), targets, start, end)
    return table_response(call, rows, {"source": "days"})
